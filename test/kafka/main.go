// Command kafka starts and ends a Kafka broker for people: a node of its own, with transactions, on the loopback address. It
// is what make kafka and make kafka-stop run; fetch, for make deps, fetches what a broker runs on. docs/kafka-broker.md tells
// more. The tests start their brokers themselves.
//
//	kafka [-dir build/kafka] [-port 9092] start
//	kafka [-dir build/kafka] stop
//	kafka fetch
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

func main() {
	dir := flag.String("dir", "build/kafka", "where the broker keeps its data and its log")
	port := flag.Int("port", 9092, "the port for clients; the five behind it are the broker's too")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, flag.Args(), *dir, *port)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafka:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string, dir string, port int) error {
	const usage = "say start, stop or fetch, not %q"
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
