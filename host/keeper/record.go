package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
)

// The files of a spool folder, beside whatever else its owner keeps there.
const (
	stdoutFile = "transcript"
	stderrFile = "stderr"
	recordFile = "keeper.json"
	exitFile   = "exit.json"
)

// Record is what a keeper leaves on disk while its command runs, for who finds
// both the keeper and its client dead. No pid in it is believed without the
// start time beside it, and none at all after a reboot.
type Record struct {
	BootID      string             `json:"boot_id"`
	Keeper      driver.Proc        `json:"keeper"`
	Leader      driver.Proc        `json:"leader"`
	Cgroup      string             `json:"cgroup,omitempty"` // its path in the file system
	Marker      string             `json:"marker,omitempty"`
	Sessions    []proctree.Session `json:"sessions,omitempty"`
	Containment driver.Containment `json:"containment"`
	Started     time.Time          `json:"started_at"`
}

// ReadRecord reads the record in a spool folder. An error that matches
// fs.ErrNotExist means that no command was ever started there.
func ReadRecord(dir string) (*Record, error) {
	r := new(Record)
	if err := readJSON(filepath.Join(dir, recordFile), r); err != nil {
		return nil, err
	}
	return r, nil
}

// ReadExit reads how the command of a spool folder ended. An error that matches
// fs.ErrNotExist means that its keeper has not said.
func ReadExit(dir string) (*driver.Exit, error) {
	e := new(driver.Exit)
	if err := readJSON(filepath.Join(dir, exitFile), e); err != nil {
		return nil, err
	}
	return e, nil
}

func readJSON(file string, v any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// writeJSON replaces file at once or not at all. With durable the content is on
// the disk before the name is.
func writeJSON(file string, v any, durable bool) error {
	b := append(encode(v), '\n')
	tmp := file + ".new"
	// The name is fixed and ours alone: what a crash left there is replaced.
	// Removing first keeps a symbolic link from being written through.
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && durable {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, file)
	}
	if err != nil {
		os.Remove(tmp)
		return err
	}
	if durable {
		syncDir(filepath.Dir(file))
	}
	return nil
}

// syncDir makes a rename durable where directories can be synced; elsewhere
// there is nothing that could be done about the error.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		d.Sync()
		d.Close()
	}
}

// procs translates, and bounds: after a fork storm a list could be longer than
// a frame may be.
func procs(ps []proctree.Proc) []driver.Proc {
	const most = 4096
	if len(ps) > most {
		ps = ps[:most]
	}
	var out []driver.Proc
	for _, p := range ps {
		out = append(out, driver.Proc{PID: p.PID, Name: p.Name, Start: p.Start})
	}
	return out
}
