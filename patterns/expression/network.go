package expression

import (
	"net/netip"
	"slices"
)

// networks is a set of networks: one table for each length of prefix, so that a list of 100,000 networks costs at most
// as many look-ups as it has different lengths.
type networks struct {
	lengths []prefixLength
	tables  map[netip.Prefix]struct{}
}

// prefixLength is a length of prefix that occurs in a set, apart for the two families.
type prefixLength struct {
	bits int
	v6   bool
}

func (n *networks) add(p netip.Prefix) {
	if n.tables == nil {
		n.tables = map[netip.Prefix]struct{}{}
	}
	n.tables[p] = struct{}{}
	if l := (prefixLength{p.Bits(), p.Addr().Is6()}); !slices.Contains(n.lengths, l) {
		n.lengths = append(n.lengths, l)
	}
}

func (n *networks) contain(a netip.Addr) bool {
	for _, l := range n.lengths {
		if l.v6 != a.Is6() {
			continue
		}
		if p, err := a.Prefix(l.bits); err == nil {
			if _, ok := n.tables[p]; ok {
				return true
			}
		}
	}
	return false
}

// parseNetwork reads a network (10.0.0.0/8) or a single address. Host bits are masked away, and an IPv4 address written
// as IPv6 is an IPv4 address.
func parseNetwork(s string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		return p.Masked(), true
	}
	if a, ok := parseAddress(s); ok {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	return netip.Prefix{}, false
}

// parseAddress reads an IP address; a zone is dropped. The error of netip is not looked at, it costs an allocation, so
// the common case of a text that cannot be an address is sorted out first.
func parseAddress(s string) (netip.Addr, bool) {
	if len(s) < 2 || len(s) > 64 || !addressByte(s[0]) {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return a.Unmap().WithZone(""), true
}

func addressByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' || c == ':'
}
