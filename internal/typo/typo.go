// Package typo tells how far a word is from the one that was meant.
package typo

// maxWord bounds what is compared, in bytes: a longer word comes from a file
// that somebody else wrote, and is no mistake of two letters.
const maxWord = 64

// Distance is the number of bytes to insert, remove or replace to make b of a,
// two neighbours that changed places counted as one: the most frequent mistake.
// Of a long word it is its length.
func Distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return max(len(a), len(b))
	}
	var before []int
	prev, cur := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, make([]int, len(b)+1)
	}
	return prev[len(b)]
}
