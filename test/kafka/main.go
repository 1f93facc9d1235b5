// Command kafka starts and ends a Kafka broker for people: a node of its own, with transactions, on the loopback address. It
// is what make kafka and make kafka-stop run; send writes lines to a topic of that broker; fetch, for make deps, fetches what
// a broker runs on. docs/kafka-broker.md tells more. The tests start their brokers themselves; lend runs a command, go test,
// with a broker that all packages share.
//
//	kafka [-dir build/kafka] [-port 9092] start
//	kafka [-dir build/kafka] send TOPIC <LINES
//	kafka [-dir build/kafka] stop
//	kafka fetch
//	kafka lend COMMAND [ARGUMENT...]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

func main() {
	dir := flag.String("dir", "build/kafka", "where the broker keeps its data and its log")
	port := flag.Int("port", 9092, "the port for clients; the five behind it are the broker's too")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdin, os.Stdout, flag.Args(), *dir, *port)
	cancel()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(max(e.ExitCode(), 1)) // the command has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafka:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer, args []string, dir string, port int) error {
	const usage = "say start, stop, fetch, send and a topic, or lend and a command, not %q"
	if len(args) > 1 && args[0] == "lend" {
		return lend(ctx, exec.Command(args[1], args[2:]...))
	}
	if len(args) == 2 && args[0] == "send" {
		n, err := kafkatest.Send(ctx, dir, args[1], in)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%d records are in %s\n", n, args[1])
		return err
	}
	if len(args) != 1 {
		return fmt.Errorf(usage, args)
	}
	switch args[0] {
	case "start":
		s, err := kafkatest.Stand(ctx, dir, port)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "Kafka %s is ready at %s (process %d; data and log in %s; make kafka-stop ends it)\n", s.Kafka, s.Address, s.Pid, dir)
		return err
	case "stop":
		pid, err := kafkatest.Fell(dir)
		if err != nil {
			return err
		}
		if pid == 0 {
			_, err = fmt.Fprintf(out, "no broker runs in %s\n", dir)
			return err
		}
		_, err = fmt.Fprintf(out, "Kafka ended (process %d); its data stays in %s\n", pid, dir)
		return err
	case "fetch":
		return kafkatest.Prepare(ctx)
	default:
		return fmt.Errorf(usage, args)
	}
}

// lend runs a command. Where no broker can run here it runs all the same: each test says what is missing. An interrupt reaches
// the command by itself, as one of the same terminal.
func lend(ctx context.Context, command *exec.Cmd) (err error) {
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	lender, err := kafkatest.Lend(ctx)
	if err != nil {
		return err
	}
	if lender != nil {
		defer func() {
			if closed := lender.Close(); err == nil {
				err = closed
			}
		}()
		command.Env = append(os.Environ(), lender.Environment())
	}
	return command.Run()
}
