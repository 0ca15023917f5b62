// Package driver is the small interface that a host implementer writes.
//
// A driver only reaches an execution environment: it starts one command there
// and moves bytes. Everything that every host must do alike (the exactly-once
// end, early writes, bounded cleanup, the owner) lives once, in package host.
package driver

import (
	"context"
	"io"
	"time"
)

// Host starts commands in one execution environment. Its methods may be called
// concurrently.
type Host interface {
	// Start starts the command and returns as soon as the environment has
	// accepted or refused it. ctx bounds this call only, not the process. When
	// Start returns an error, nothing of the command is left running.
	//
	// What the command writes is given to out, in order per stream, from before
	// Start returns until Process.Wait returns; never after.
	Start(ctx context.Context, spec *Spec, out Output) (Process, error)
	// Close releases the connection to the environment. Processes that are
	// still running are ended first.
	Close() error
}

// Looker is an optional ability of a Host: to say, without starting the
// command, what the environment is and where a name resolves in it.
type Looker interface {
	// Look describes the environment. With a non-empty name it also resolves
	// it the way Start would, on the environment's own PATH or on the PATH in
	// env; a name that does not resolve is a *NotFoundError.
	Look(ctx context.Context, name string, env Env) (*Place, error)
}

// Place is what Look found.
type Place struct {
	OS, Arch string // GOOS and GOARCH values
	UID      int    // -1 where there is no such thing
	Home     string
	Path     string    // the PATH that is searched there
	Exe      string    // absolute path of the executable, "" when no name was given
	Size     int64     // of Exe (symlinks followed), bytes
	ModTime  time.Time // of Exe

	// Keeper is the argv that starts the keeper's program there, to which "ask"
	// and Spec.Ask's directory are appended; nil where none can be named.
	Keeper []string `json:",omitempty"`
	// Private is an absolute directory there below which Spec.Ask.Dir and
	// Spec.Folder.Dir can be made; "" where there is none.
	Private string `json:",omitempty"`
}

// Spec says what to start. Everything in it is meant where the command runs;
// nothing refers to the machine of the caller.
type Spec struct {
	// ID names the command: it begins the marker REIN_RUN in its environment
	// and is the name of its spool folder. Unique per host while it runs; safe as
	// a file name. "" means no marker and no spool.
	ID string

	Argv  []string // Argv[0] is resolved on the environment's own PATH, or Env's
	Env   Env      // layered over the environment's own
	Unset []string // removed from the environment; never set to ""
	Dir   string   // working directory there; "" is the environment's default

	// Input is pumped to stdin, then end of file. Package host does the
	// pumping: a driver always sees nil here.
	Input io.Reader
	// Duplex keeps stdin open for Process.Write. When it is false a driver
	// gives the command an empty stdin (end of file at once).
	Duplex bool
	// MergeStderr sends stderr into the stdout stream, in the order written.
	MergeStderr bool

	// Grace is the time between the first signal and SIGKILL when the
	// environment itself must end the tree (the caller is gone, or the leader
	// left descendants behind). 0: 1 s.
	Grace time.Duration
	// Drain bounds the wait for end of file on stdout and stderr once the
	// leader is over and a descendant still holds them. 0: 1 s.
	Drain time.Duration
	// TTL ends the tree when everything else has failed to. 0: none here; a
	// remote driver sets one.
	TTL time.Duration

	// Containment is the strongest means that may be used; "" is the best one
	// there is. Tests force a weaker one.
	Containment Containment
	// Ask lets programs of the command ask the Output, which must be an Asker.
	// nil: nobody listens.
	Ask *Ask
	// Folder is what the command needs beside it; nil: nothing.
	Folder *Folder
	// Helper marks a short command of Rein's own (git, a version probe): the
	// environment may use its cheapest means and writes no spool.
	Helper bool
}

// Ask is where programs of the command ask a question (a pre-tool hook does)
// and get a Reply: they start Place.Keeper with "ask" and Dir behind it, give it
// the question on stdin, and take its exit code, stdout and stderr.
type Ask struct {
	// Dir is a directory there, absolute, that is made with mode 0700 unless it
	// is there and private already. The socket stands in it while the command
	// runs.
	Dir string
	// Files are placed in Dir before the start, mode 0600, and removed at the
	// end. Names are base names; what is there already is never written over.
	Files []File
}

// Folder is a directory that is made for one command, before its start, and
// removed with all that is in it when the command's tree is gone.
type Folder struct {
	// Dir is absolute, there, and must not be there yet; the directory that it is
	// in is made too, mode 0700, unless it is there and private already.
	Dir string
	// Files have slash-separated names below Dir.
	Files []File
}

// File is a file to be placed where a command runs.
type File struct {
	Name string
	Data []byte `json:",omitempty"`
	// The rest is for the files of a Folder.

	// Program makes the mode 0500, and not 0600.
	Program bool `json:",omitempty"`
	// Link makes a symbolic link to another file of the folder instead: its name,
	// below Dir too.
	Link string `json:",omitempty"`
}

// Stream tells stdout from stderr.
type Stream uint8

const (
	Stdout Stream = iota
	Stderr
)

func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Output receives what one command writes. Data is called in the order of the
// bytes, by one goroutine at a time; p is valid only during the call. Chunk
// boundaries mean nothing. A call that blocks holds the command back, after
// the few MiB that are kept in between; it never holds back Signal, Kill or
// Wait's verdict on the tree.
type Output interface {
	Data(s Stream, p []byte)
}

// SpoolOutput is an optional ability of an Output: to read the bytes from the
// spool files themselves. A driver whose spool lies on the caller's machine
// calls Spool once, before any other call, and then Spooled instead of Data.
// Blocking in Spooled holds the command back as blocking in Data does.
type SpoolOutput interface {
	Output
	// Spool names the files that hold stdout and stderr, byte for byte.
	Spool(stdout, stderr string)
	// Spooled says that the file of s holds its first n bytes.
	Spooled(s Stream, n int64)
}

// Sampler is an optional ability of an Output: it is told, about once a
// second, what the tree uses.
type Sampler interface {
	Sample(Sample)
}

// Asker is an optional ability of an Output: it answers what a program of the
// command asks (Spec.Ask). Ask may be called by several goroutines at once, and
// while another method of the Output is at work: a question must not wait for a
// reader that is behind. q is the Asker's own. It answers soon: whoever asks
// has given up, which means no, after 30 s.
type Asker interface {
	Ask(q []byte) Reply
}

// Reply is what the program that asked prints, and its exit code.
type Reply struct {
	Exit   int    `json:"exit"`
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
}

// RefusedCode is the exit code that every CLI's pre-tool hook takes for no.
const RefusedCode = 2

// Refuse is the Reply that means no in the language of every pre-tool hook. The
// text is never empty: codex 0.171.0 runs the tool after exit 2 and an empty
// stderr.
func Refuse(why string) Reply {
	if why == "" {
		why = "refused"
	}
	return Reply{Exit: RefusedCode, Stderr: []byte(why + "\n")}
}

// Sample is what the tree used at one moment.
type Sample struct {
	RSS   int64   // resident bytes of all members together
	Procs int     // live members
	CPU   float64 // seconds used by all members so far, ended ones included
}

// Signal is a request to stop, sent to every member of the tree.
type Signal string

const (
	Interrupt Signal = "interrupt" // SIGINT
	Terminate Signal = "terminate" // SIGTERM
)

// Process is one started command. Its methods may be called concurrently.
type Process interface {
	// Write gives p to stdin. It blocks while the command does not read and
	// the environment's buffer is full, until ctx ends. Package host puts its
	// bounded queue in front of it. ErrClosed after CloseStdin or the end.
	Write(ctx context.Context, p []byte) error
	// CloseStdin ends stdin after what was written.
	CloseStdin(ctx context.Context) error
	// Signal asks every member of the tree to stop. nil when nobody is left.
	Signal(ctx context.Context, sig Signal) error
	// Kill ends every member of the tree and returns when that is verified or
	// ctx ends. Idempotent.
	Kill(ctx context.Context) error
	// Wait returns when the leader is over, the tree was swept and all output
	// was delivered. It may be called many times and returns the same. An
	// error means that ctx ended first, and nothing else.
	Wait(ctx context.Context) (Exit, error)
}

// Reason says how a command came to its end.
type Reason string

const (
	Exited   Reason = "exited"   // by itself, before any signal of ours: Code holds
	Signaled Reason = "signaled" // by a signal that was not ours: Signal holds
	Killed   Reason = "killed"   // after the first signal of ours; Code or Signal say how it went
	Lost     Reason = "lost"     // the environment can no longer say; the command may have run on
	Failed   Reason = "failed"   // the environment ended it for a reason of its own (full disk): Detail says which
)

// Exit is the end of a command. It is a value, not an error.
type Exit struct {
	Reason Reason `json:"reason"`
	Code   *int   `json:"code"`             // exit code of the leader, nil when it has none
	Signal string `json:"signal,omitempty"` // "SIGTERM" …, when the leader died of one
	Detail string `json:"detail,omitempty"` // one line, for lost and failed

	Containment Containment `json:"containment"`
	Leftovers   []Proc      `json:"leftovers,omitempty"` // members that outlived the leader and were ended
	Survivors   []Proc      `json:"survivors,omitempty"` // members that could not be ended
	HeldBy      []Proc      `json:"held_by,omitempty"`   // members that held stdout or stderr beyond Drain

	Stdout int64 `json:"stdout"` // bytes that the command wrote and that were kept
	Stderr int64 `json:"stderr"`

	RSSMax int64   `json:"rss_max"` // bytes, highest sample of the tree
	CPU    float64 `json:"cpu"`     // seconds, the whole tree
}

// Proc names one process.
type Proc struct {
	PID   int    `json:"pid"`
	Name  string `json:"name"`
	Start uint64 `json:"start,omitempty"` // start time in clock ticks since boot, from /proc/PID/stat field 22
}

// Containment says what held the tree together.
type Containment string

const (
	ByCgroup Containment = "cgroup" // cgroup v2 and the keeper's lineage
	ByKeeper Containment = "keeper" // the keeper is subreaper and parent
	ByJob    Containment = "job"    // a Windows job object
	ByMarker Containment = "marker" // session, group, lineage as far as it can be seen, environment marker
	ByHost   Containment = "host"   // the environment's own means
)
