package rein

import (
	"encoding/json"
	"os"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/store"
)

// threadFile keeps what a conversation had used when a run of it ended. codex
// tells only the sum of the whole conversation: a run that resumes it is
// charged for what lies beyond.
const threadFile = "thread.json"

type thread struct {
	Agent   string       `json:"agent"`
	Session string       `json:"session"`
	Dir     string       `json:"dir"`
	Usage   *agent.Usage `json:"usage"`
}

// saveThread is an aid for the next run: what cannot be written here costs that
// run no more than a note that earlier runs are in its numbers.
func saveThread(dir *store.Run, t thread) {
	if t.Usage != nil && t.Session != "" {
		_ = writeJSON(dir, threadFile, t)
	}
}

// baseline finds what the conversation that the run continues had used before:
// in the newest run of the same agent that was in it.
func baseline(s *store.Store, agentName, dir string, session agent.Session) *agent.Usage {
	if session.Resume == "" {
		return nil
	}
	runs, err := s.List()
	if err != nil {
		return nil
	}
	for _, e := range runs {
		b, err := os.ReadFile(e.Run.Path(threadFile))
		var t thread
		if err != nil || json.Unmarshal(b, &t) != nil || t.Agent != agentName {
			continue
		}
		if t.Session == session.Resume || session.Resume == "latest" && t.Dir == dir {
			return t.Usage
		}
	}
	return nil
}
