package boundary

import (
	"time"

	"github.com/rein-run/rein/internal/git"
)

// Options say how the repository is reached and what is nobody's fault. nil and
// the zero value look at everything that git alone can tell; remotes are then not
// asked, for that needs a git that may use the network.
type Options struct {
	// Remote runs a git that may ask a remote, in the environment git.RemoteEnv.
	Remote git.Runner
	// RemoteTime bounds all questions to remotes together, which are asked at the
	// same time. 0: 10 s.
	RemoteTime time.Duration

	// Files, Lstat and Nested look at files where the repository is. Files nil
	// asks through git's shell; Lstat nil does not see further edits of a file
	// that was dirty before; Nested nil does not look for repositories inside.
	Files  git.Files
	Lstat  git.Lstat
	Nested git.Nested

	// Repo is what git.Find says of the directory, where that is known already.
	Repo *git.Repo
	// Config is what git.Config says of it, for Take, where that was just asked.
	Config []git.Setting

	// ID is the run's, for Check: with it what a restore command needs is kept
	// from git gc under refs/rein/<ID>/.
	ID     string
	Grants Grants
	Peers  []Peer
}

// Grants are what a run may do, or what happens beside it.
type Grants struct {
	// Commits allows new commits on the branch that HEAD was on at the start.
	Commits bool `json:"commits,omitempty"`
	// OthersWorkHere says that people use other working trees of the repository
	// meanwhile: what happens to their files, their HEAD, branches that are not
	// the run's, the stash and the list of working trees does not count.
	OthersWorkHere bool `json:"others_work_here,omitempty"`
}

// Peer is another run that was in the repository meanwhile. What it did in its
// working tree and to its branch is judged in its own report.
type Peer struct {
	ID     string
	Top    string // its working tree
	Branch string // full name; "" when detached
	// Left is how it left them, where it is over: what is different from that is
	// not its doing. nil while it works, and where nobody knows.
	Left *Left
}

// Local are the options for a repository on this machine.
func Local() *Options {
	return &Options{Remote: git.LocalRemote, Files: git.LocalFiles, Lstat: git.LocalLstat, Nested: git.LocalNested}
}

func (o *Options) orDefault() *Options {
	if o == nil {
		return &Options{}
	}
	return o
}
