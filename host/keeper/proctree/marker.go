package proctree

import "strings"

// markerName is the environment variable that carries a run's marker.
const markerName = "REIN_RUN"

// markedAs says whether value, the content of REIN_RUN, belongs to marker.
// Markers are paths: "outer" owns "outer" and "outer/inner", never "outer2". An
// id without its tag owns all tags: "outer" owns "outer@x", and "outer@x" not
// "outer@y".
func markedAs(value, marker string) bool {
	rest, ok := strings.CutPrefix(value, marker)
	return ok && marker != "" && (rest == "" || rest[0] == '/' || rest[0] == '@')
}

// environMarked says whether one of the NUL-separated variables of env is
// REIN_RUN with a value that belongs to marker. Any of them counts, not only
// the first: a process may carry the name twice, and which one getenv(3) finds
// is no proof of where it came from.
func environMarked(env []byte, marker string) bool {
	for v := range strings.SplitSeq(string(env), "\x00") {
		if value, ok := strings.CutPrefix(v, markerName+"="); ok && markedAs(value, marker) {
			return true
		}
	}
	return false
}
