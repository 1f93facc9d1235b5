package kafkatest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listeners are the ports of a node, in the order of its addresses.
var listeners = []struct {
	name, protocol string
	endpoint       func(p *papers) []Endpoint
}{
	{"PLAIN", "PLAINTEXT", func(*papers) []Endpoint { return []Endpoint{{Name: "plain"}} }},
	{"CONTROLLER", "PLAINTEXT", nil},
	{"TLS", "SSL", func(p *papers) []Endpoint { return []Endpoint{{Name: "tls", CAFile: p.ca, TLS: p.client()}} }},
	{"MTLS", "SSL", func(p *papers) []Endpoint {
		return []Endpoint{{Name: "mtls", CAFile: p.ca, CertFile: p.clientCert, KeyFile: p.clientKey, TLS: p.showing()}}
	}},
	{"SASL", "SASL_PLAINTEXT", func(*papers) []Endpoint {
		return []Endpoint{asUser("PLAIN", Endpoint{}), asUser("SCRAM-SHA-256", Endpoint{})}
	}},
	{"TLSSASL", "SASL_SSL", func(p *papers) []Endpoint {
		e := Endpoint{CAFile: p.ca, TLS: p.client()}
		return []Endpoint{asUser("PLAIN", e), asUser("SCRAM-SHA-512", e)}
	}},
}

// The places of two listeners among them.
const (
	plainPort      = 0
	controllerPort = 1
)

func asUser(mechanism string, e Endpoint) Endpoint {
	e.Name, e.Mechanism, e.User, e.Password = protection(e.TLS != nil, mechanism), mechanism, user, password
	return e
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// configure writes the configuration of a node.
//
// What is set short here makes tests wait otherwise: a broker that was killed starts again only when its registration has
// ended (broker.session.timeout.ms), groups wait for members, transactions that timed out wait for a round of the coordinator,
// and the cleaner for its next one.
func (b *Broker) configure(n *node) error {
	var all, protocols, voters []string
	for i, l := range listeners {
		all = append(all, l.name+"://"+address(n.ports[i]))
		protocols = append(protocols, l.name+":"+l.protocol)
	}
	for _, v := range b.nodes {
		voters = append(voters, fmt.Sprintf("%d@%s", v.id, address(v.ports[controllerPort])))
	}
	replicas := len(b.nodes)
	inSync := replicas/2 + 1 // one of three may be away
	p := b.papers
	lines := []string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", n.id),
		"controller.quorum.voters=" + strings.Join(voters, ","),
		"listeners=" + strings.Join(all, ","),
		"listener.security.protocol.map=" + strings.Join(protocols, ","),
		"controller.listener.names=CONTROLLER",
		"inter.broker.listener.name=PLAIN",
		"log.dirs=" + filepath.Join(n.dir, "data"),

		"auto.create.topics.enable=false",
		fmt.Sprintf("default.replication.factor=%d", replicas),
		fmt.Sprintf("min.insync.replicas=%d", inSync),
		fmt.Sprintf("offsets.topic.replication.factor=%d", replicas),
		"offsets.topic.num.partitions=4",
		fmt.Sprintf("transaction.state.log.replication.factor=%d", replicas),
		fmt.Sprintf("transaction.state.log.min.isr=%d", inSync),
		"transaction.state.log.num.partitions=4",
		fmt.Sprintf("share.coordinator.state.topic.replication.factor=%d", replicas),
		fmt.Sprintf("share.coordinator.state.topic.min.isr=%d", inSync),
		"share.coordinator.state.topic.num.partitions=1",

		"broker.session.timeout.ms=2000",
		"broker.heartbeat.interval.ms=400",
		"group.initial.rebalance.delay.ms=0",
		"group.min.session.timeout.ms=500",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms=300",
		"log.cleaner.backoff.ms=200",
		"log.segment.delete.delay.ms=1000",

		// Few threads and small buffers: a broker of a test has two processors and shares them.
		"num.network.threads=1",
		"num.io.threads=4",
		"background.threads=2",
		"log.cleaner.dedupe.buffer.size=4194304",

		"ssl.keystore.type=PEM",
		"ssl.keystore.certificate.chain=" + oneLine(p.serverCert),
		"ssl.keystore.key=" + oneLine(p.serverKey),
		"ssl.truststore.type=PEM",
		"ssl.truststore.certificates=" + oneLine(p.ca),
		"listener.name.mtls.ssl.client.auth=required",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
	}
	for _, l := range []string{"sasl", "tlssasl"} {
		lines = append(lines,
			fmt.Sprintf(`listener.name.%s.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_%s="%s";`, l, user, password),
			fmt.Sprintf("listener.name.%s.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;", l),
			fmt.Sprintf("listener.name.%s.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;", l),
		)
	}
	lines = append(lines, b.options.Properties...) // of equal names the last counts
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(n.file("server.properties"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return os.WriteFile(n.file("log4j2.properties"), []byte(logging), 0o600)
}

// logging sends warnings to the standard output, and the line that says that the broker is ready.
const logging = `status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss.SSS} %-5p %c{1} %m%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=info
`

// oneLine is a PEM file as the value of a property.
func oneLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", `\n`)
}
