package patterns

import "strings"

// nearest returns the word that somebody most likely meant, "" where none is close: at most a third of the letters differ.
func nearest(word string, words []string) string {
	if len(word) > maxName {
		return "" // nobody means a word of that length, and the table of distances grows with the square
	}
	best, least := "", max(len(word)/3, 1)+1
	for _, w := range words {
		if d := distance(strings.ToLower(word), strings.ToLower(w)); w != word && d < least {
			best, least = w, d
		}
	}
	return best
}

// distance is the number of letters to insert, drop, change or swap with their neighbour to get from a to b.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	older, old, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range old {
		old[j] = j
	}
	for i := range s {
		row[0] = i + 1
		for j := range t {
			change := old[j]
			if s[i] != t[j] {
				change++
			}
			row[j+1] = min(change, old[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(t)]
}
