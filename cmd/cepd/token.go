package main

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

const (
	// tokenBytes is what a token holds at random: nobody guesses 256 bits.
	tokenBytes = 32
	// tokenPrefix stands before a token, so that programs which look for leaked secrets know one.
	tokenPrefix = "cepd_"
	// tokenMin is the length of the shortest token that is hashed: its hash has no salt, so that a short one could be found by
	// trying. A UUID has 36 characters.
	tokenMin = 32
)

// newToken returns `cepd token`.
func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a token for the HTTP listener, or its hash",
		Long: `Make what goes into the file that http.tokens names. The file holds hashes, so that who reads it cannot ask for
anything: docs/security.md shows it whole.`,
		Example: `  # A new token: the token to standard output, the entry with its hash to standard error
  cepd token new > ada.token

  # The hash of one that another program made
  pass show cepd/ci | cepd token hash`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenNew(), newTokenHash())
	return cmd
}

// newTokenNew returns `cepd token new`.
func newTokenNew() *cobra.Command {
	var name, role string
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make a token",
		Long: `Make a token of 256 random bits. It goes to standard output, for whoever will use it; an entry for the file that
http.tokens names, with its hash, goes to standard error. The token is kept nowhere.`,
		Example: `  # For a person who changes rules
  cepd token new --name ada --role editor > ada.token

  # Into the clipboard, and the entry at the end of the file
  cepd token new --name ci --role viewer 2>> tokens.yaml | xclip`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var random [tokenBytes]byte
			_, _ = rand.Read(random[:]) // it never fails: the program ends where there is no randomness
			token := tokenPrefix + base64.RawURLEncoding.EncodeToString(random[:])
			entry := fmt.Sprintf("- {name: %s, role: %s, tokens: [%q]}\n", name, role, hashOfToken(token))
			if _, err := parseAccess("", []byte("version: 1\naccess:\n"+entry)); err != nil {
				return usagef("--name %s --role %s: %w", name, role, err)
			}
			out := newPrinter(cmd.OutOrStdout())
			out.printf("%s\n", token)
			if err := out.done(); err != nil {
				return err
			}
			p := newPrinter(cmd.ErrOrStderr())
			p.printf("%s", entry)
			return p.done()
		},
	}
	cmd.Flags().StringVar(&name, "name", "somebody", "the `NAME` that logs and revisions show")
	cmd.Flags().StringVar(&role, "role", "viewer", "`viewer|editor|admin`")
	return cmd
}

// newTokenHash returns `cepd token hash`.
func newTokenHash() *cobra.Command {
	return &cobra.Command{
		Use:   "hash",
		Short: "Print the hash of a token that is read from standard input",
		Long: `Read a token from standard input, where no list of processes shows it, and print its hash. A hash has no salt: the
token has to be long and random. One with less than 32 characters is refused.`,
		Example: `  # Of a token in a file
  cepd token hash < ci.token

  # Of one that openssl makes
  openssl rand -base64 32 | tee ci.token | cepd token hash`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			line, err := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), tokenMax+2)).ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return failed(fmt.Errorf("read the token: %w", err))
			}
			token := strings.TrimRight(line, "\r\n")
			switch {
			case len(token) < tokenMin:
				return usagef("the token has %d characters, and needs %d at least: `cepd token new` makes one", len(token), tokenMin)
			case len(token) > tokenMax:
				return usagef("the token has more than %d characters", tokenMax)
			case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
				return usagef("the token has a character that no header can hold")
			}
			p := newPrinter(cmd.OutOrStdout())
			p.printf("%s\n", hashOfToken(token))
			return p.done()
		},
	}
}

// hashOfToken is a token as the file of tokens has it.
func hashOfToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}
