// Package replay runs rules over recordings that nobody here made, and holds what they find to what is known to be there.
//
// The recordings and the figures of expected.json are not part of the project: the tests read the folder in CEPD_DATA, or
// ../shared/data beside the checkout, and skip where there is none. The rules in rules/ were written for them; where they
// follow a published detection, they say the same in other words.
//
// Each rule runs over every recording, through the readers, decoders, order buffer and machine that `cepd replay` uses,
// with the lateness that a user would set. What it finds outside its own recording is a hit too, and each is explained
// where it is counted.
package replay
