package webhooksink

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// errAddress is inside errors about addresses that may not be called.
var errAddress = errors.New("address not allowed")

// special are ranges that net/netip has no word for, and what lives there.
var special = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared with a carrier"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignments"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarks"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
}

// embedded are IPv6 ranges that lead to the IPv4 address inside of them, from a byte on.
var embedded = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},   // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12}, // NAT64 of one's own
	{netip.MustParsePrefix("2002::/16"), 2},       // 6to4
	{netip.MustParsePrefix("::/96"), 12},          // IPv4-compatible
}

// rules say which addresses may be dialled.
type rules struct {
	private bool           // loopback and private networks
	allow   []netip.Prefix // these in any case
}

// check returns an error for an address that may not be called. What it is asked about is what a connection is made to, after
// names were resolved: a name that leads inside, and a redirect to one, are refused too.
func (r rules) check(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	for _, p := range r.allow {
		if p.Contains(addr) {
			return nil
		}
	}
	what := ""
	switch {
	case !addr.IsValid(), addr.IsUnspecified():
		what = "unspecified"
	case addr.IsLoopback():
		if r.private {
			return nil
		}
		what = "loopback"
	case addr.IsPrivate():
		if r.private {
			return nil
		}
		what = "private"
	case addr.IsLinkLocalUnicast():
		what = "link-local, where clouds keep their metadata"
	case addr.IsMulticast():
		what = "multicast"
	}
	for _, s := range special {
		if what == "" && s.prefix.Contains(addr) {
			what = s.what
		}
	}
	if what != "" {
		return fmt.Errorf("%w: %s is %s", errAddress, addr, what)
	}
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	for _, e := range embedded {
		if e.prefix.Contains(addr) {
			return r.check(netip.AddrFrom4([4]byte(b[e.at : e.at+4])))
		}
	}
	return nil
}

// control is called by the dialler with the address that it is about to connect to.
func (r rules) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q", errAddress, address)
	}
	return r.check(ap.Addr())
}
