package redissink

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/cepd/cepd/sinks"
)

// checkServer asks the server about itself, with a right that any user may be given, and refuses one that would lose messages
// by its very settings.
func (s *Sink) checkServer(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.client.conns.cut)
	defer stop()
	master, err := s.client.master(ctx)
	if err != nil {
		return err
	}
	f := facts{}
	for _, section := range []string{"server", "memory", "persistence", "replication"} {
		text, err := master.Info(ctx, section).Result()
		if err != nil {
			return fmt.Errorf("info %s: %w", section, err)
		}
		f.add(text)
	}
	if why := f.refusal(&s.config); why != "" {
		return fmt.Errorf("%w: %s", sinks.ErrStop, why)
	}
	if f["aof_enabled"] == "0" {
		s.log.Warn("the server keeps no append-only file", "advice", "set appendonly yes: else a restart loses what is newer than the last "+
			"snapshot; it is sent again as long as the outbox holds it")
	}
	if n := f.number("connected_slaves"); int(n) < s.config.Replicas {
		s.log.Warn("the server has too few replicas: nothing counts as acknowledged", "replicas", n, "wanted", s.config.Replicas)
	}
	s.log.Info("the Redis server is fit", "version", f.version(), "position", s.position)
	return nil
}

// facts is what INFO says.
type facts map[string]string

func (f facts) add(info string) {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			f[name] = value
		}
	}
}

func (f facts) version() string {
	if v := f["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return "Redis " + f["redis_version"]
}

// refusal says why the server cannot be used, "" if it can.
func (f facts) refusal(c *Config) string {
	var major, minor int
	if _, err := fmt.Sscanf(f["redis_version"], "%d.%d", &major, &minor); err == nil && (major < 6 || major == 6 && minor < 2) {
		return fmt.Sprintf("the server is Redis %s; 6.2 is the oldest one that is supported", f["redis_version"])
	}
	// Sentinels and clusters may be failing over just now: then READONLY says it, and passes.
	if f["role"] == "slave" && !c.Cluster && c.Sentinel == "" {
		return fmt.Sprintf("the server is a replica of %s:%s and takes no writes; give the address of the master", f["master_host"], f["master_port"])
	}
	switch mode := f["redis_mode"] + f["server_mode"]; { // Valkey has a name of its own
	case strings.Contains(mode, "cluster") && !c.Cluster:
		return "the server is a node of a cluster; set `cluster: true`"
	case strings.Contains(mode, "sentinel"):
		return "the server is a sentinel; name the master that it watches by `sentinel:`"
	}
	if policy := f["maxmemory_policy"]; f.number("maxmemory") > 0 && strings.HasPrefix(policy, "allkeys-") {
		return fmt.Sprintf("the server evicts any key when its memory is full (maxmemory-policy %s): the alerts and their position too; "+
			"set maxmemory-policy to noeviction or to one of the volatile policies", policy)
	}
	return ""
}

func (f facts) number(name string) int64 {
	n, _ := strconv.ParseInt(f[name], 10, 64)
	return n
}
