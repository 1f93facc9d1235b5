// Package yamlnode reads YAML that people write, and keeps the place of everything.
//
// [Parse] turns a text into a [File]: its documents as trees of [Node], and its lines for excerpts. Whatever is wrong
// comes back as a list of [Problem], each with its place and a [Kind], so that the rules and the configuration can give
// it a code of their own and report it beside their own mistakes.
//
//	f, problems := yamlnode.Parse("rules/ssh.yaml", data)
//	for key, value := range yamlnode.Pairs(f.Documents[0]) {
//		fmt.Println(key.Value, value.Line, value.Column)
//	}
//
// Scalars are text: what [Node.Value] holds is never interpreted here, but for [IsNull] and [Core]. It is unfolded and
// unescaped, and [File.Spots] leads back from each of its runes to the file. Tags, anchors and aliases are problems.
//
// # Concurrency
//
// A File is immutable once Parse has returned it.
//
// # Cost
//
// Parse is linear in the text, and Spots in that of the scalar. Texts above [MaxBytes], [MaxNodes] or [MaxDepth] are refused before a tree is built.
//
// # Caveats
//
// The YAML library stops at the first mistake of syntax, so what stands behind it in the same file is not looked at.
package yamlnode
