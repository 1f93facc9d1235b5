package webhooksink

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
)

// secretPrefix is what secrets begin with that were made for the Standard Webhooks: the rest is base64.
const secretPrefix = "whsec_"

// secret returns the bytes to sign with, nil where requests are not signed.
func (s *Sink) secret() ([]byte, error) {
	text := []byte(s.c.Secret)
	if s.c.SecretFile != "" {
		var err error
		if text, err = os.ReadFile(s.c.SecretFile); err != nil {
			return nil, fmt.Errorf("read the secret: %w", err)
		}
		text = bytes.TrimSpace(text)
		if len(text) == 0 {
			return nil, fmt.Errorf("read the secret: %s is empty", s.c.SecretFile)
		}
	}
	if len(text) == 0 {
		return nil, nil
	}
	return Secret(string(text))
}

// Secret returns the bytes that a secret stands for: those of its base64 where it begins with "whsec_", else its own.
func Secret(text string) ([]byte, error) {
	encoded, ok := bytes.CutPrefix([]byte(text), []byte(secretPrefix))
	if !ok {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.DecodeString(string(encoded))
	if err != nil || len(key) == 0 {
		return nil, errors.New("the secret begins with " + secretPrefix + " and is no base64 behind it")
	}
	return key, nil
}

// Sign returns the value of the header Webhook-Signature: HMAC-SHA256 over "id.timestamp.body", as the Standard Webhooks have it.
func Sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
