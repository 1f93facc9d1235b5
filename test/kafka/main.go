// Command kafka starts and ends a Kafka broker for people: a node of its own, with transactions, on the loopback address. It
// is what make kafka and make kafka-stop run; docs/kafka-broker.md tells more. The tests start their brokers themselves.
//
//	kafka [-dir build/kafka] [-port 9092] start
//	kafka [-dir build/kafka] stop
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/cepd/cepd/internal/kafkawire/kafkatest"
)

func main() {
	dir := flag.String("dir", "build/kafka", "where the broker keeps its data and its log")
	port := flag.Int("port", 9092, "the port for clients; the five behind it are the broker's too")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, flag.Args(), *dir, *port)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafka:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, dir string, port int) error {
	if len(args) != 1 {
		return fmt.Errorf("say start or stop, not %q", args)
	}
	switch args[0] {
	case "start":
		s, err := kafkatest.Stand(ctx, dir, port)
		if err != nil {
			return err
		}
		fmt.Printf("Kafka %s is ready at %s (process %d; data and log in %s; make kafka-stop ends it)\n", s.Kafka, s.Address, s.Pid, dir)
	case "stop":
		pid, err := kafkatest.Fell(dir)
		if err != nil {
			return err
		}
		if pid == 0 {
			fmt.Printf("no broker runs in %s\n", dir)
			return nil
		}
		fmt.Printf("Kafka ended (process %d); its data stays in %s\n", pid, dir)
	default:
		return fmt.Errorf("say start or stop, not %q", args[0])
	}
	return nil
}
