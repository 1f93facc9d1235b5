package webhooksink

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		addr, word string // "": may be called
	}{
		{"93.184.216.34", ""},
		{"2606:2800:220:1::1", ""},
		{"8.8.8.8", ""},
		{"172.32.0.1", ""},
		{"100.63.255.255", ""},
		{"100.128.0.0", ""},
		{"127.0.0.1", "loopback"},
		{"127.8.9.1", "loopback"},
		{"::1", "loopback"},
		{"::ffff:127.0.0.1", "loopback"},
		{"10.1.2.3", "private"},
		{"172.16.0.1", "private"},
		{"172.31.255.255", "private"},
		{"192.168.1.1", "private"},
		{"fd00:ec2::254", "private"},
		{"::ffff:10.0.0.1", "private"},
		{"169.254.169.254", "metadata"},
		{"fe80::1%eth0", "link-local"},
		{"::ffff:169.254.169.254", "metadata"},
		{"0.0.0.0", "unspecified"},
		{"0.1.2.3", "this network"},
		{"::", "unspecified"},
		{"224.0.0.1", "multicast"},
		{"ff02::1", "multicast"},
		{"255.255.255.255", "reserved"},
		{"240.0.0.1", "reserved"},
		{"100.64.0.1", "carrier"},
		{"192.0.0.192", "protocol"},
		{"198.18.0.1", "benchmarks"},
		{"198.19.255.255", "benchmarks"},
		{"fec0::1", "site-local"},
		{"64:ff9b::a9fe:a9fe", "metadata"},
		{"64:ff9b::5db8:d822", ""},
		{"2002:7f00:1::", "loopback"},
		{"2002:5db8:d822::", ""},
		{"::a00:1", "private"},
		{"64:ff9b:1::a9fe:a9fe", "metadata"},
	} {
		err := rules{}.check(netip.MustParseAddr(c.addr))
		if (err == nil) != (c.word == "") || err != nil && !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v, want %q", c.addr, err, c.word)
		}
	}
	private := rules{private: true}
	for addr, ok := range map[string]bool{"127.0.0.1": true, "10.0.0.1": true, "fd00::1": true, "169.254.169.254": false, "0.0.0.0": false, "ff02::1": false} {
		if err := private.check(netip.MustParseAddr(addr)); (err == nil) != ok {
			t.Errorf("private: %s: %v", addr, err)
		}
	}
	allowed := rules{allow: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")}}
	if err := allowed.check(netip.MustParseAddr("::ffff:169.254.1.1")); err != nil {
		t.Error(err)
	}
	if err := allowed.check(netip.MustParseAddr("127.0.0.1")); err == nil {
		t.Error("more is allowed than was said")
	}
	if err := (rules{}).control("tcp", "no address", nil); err == nil {
		t.Error("what is no address")
	}
}
