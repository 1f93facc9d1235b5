package boltstore

import (
	"bytes"
	"encoding/binary"
)

// Reseal gives a stored value another version, with the checksum that such a value has.
func Reseal(v, place []byte, version byte) []byte {
	v = bytes.Clone(v)
	v[1] = version
	binary.BigEndian.PutUint32(v[2:], sealSum(v, place))
	return v
}
