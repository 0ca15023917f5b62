package rein

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/watch"
)

// slowReader hangs at its first line.
type slowReader struct{ entered, let chan struct{} }

func (r slowReader) Read(_ agent.Line, emit func(agent.Reading)) {
	select {
	case <-r.entered:
	default:
		close(r.entered)
	}
	<-r.let
	emit(agent.Reading{Kind: agent.KindText, Activity: "late", Text: "late", Tool: &agent.Tool{}})
}

func (slowReader) End(func(agent.Reading)) {}

// A call that hangs is given up by the host and comes back after the report. It
// must find nothing to change, nothing to wait for and nothing to break.
func TestOutputOutlivesTheRun(t *testing.T) {
	data := []byte(strings.Repeat(strings.Repeat("x", 1000)+"\n", 3*sumBuffer/1000))
	for name, deliver := range map[string]func(*output, string){
		"spooled": func(o *output, dir string) {
			path := filepath.Join(dir, "transcript")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				panic(err)
			}
			o.Spool(path, path)
			o.Spooled(driver.Stdout, int64(len(data)))
		},
		"data": func(o *output, _ string) { o.Data(driver.Stdout, data) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := slowReader{make(chan struct{}), make(chan struct{})}
				heard := 0
				h := newHooks(&Hooks{Reading: func(agent.Reading) { heard++ }})
				o := newOutput(dir, r, watch.New(watch.Clocks{}, watch.Limits{}, nil), h, func(err error) { t.Error(err) })
				back := make(chan struct{})
				go func() {
					defer close(back)
					deliver(o, dir)
				}()
				<-r.entered

				if err := o.finish(); err == nil || o.damaged("") == "" {
					t.Error("the report does not say that the bytes were not read to their end")
				}
				h.close()
				before := o.digest // nobody else has it now
				stdout, _ := o.kept()
				select {
				case <-back:
					t.Fatal("the call is back too early: it shows nothing")
				default:
				}

				close(r.let)
				<-back
				o.Spooled(driver.Stdout, int64(len(data))) // nor is there anything later
				o.Data(driver.Stderr, data)
				if o.digest.activity != before.activity || o.digest.text != before.text || heard > 0 {
					t.Errorf("the report has changed: %q, %d readings heard", o.digest.text, heard)
				}
				if f := o.spooled[0]; f != nil && f.Close() == nil {
					t.Error("a file stayed open")
				}
				if sum := sha256.Sum256(data); stdout.Bytes != int64(len(data)) || stdout.SHA256 != hex.EncodeToString(sum[:]) {
					t.Errorf("the report is not of what is on the disk: %+v", stdout)
				}
			}) // fails when a goroutine of the hash is left
		})
	}
}

// Nothing that is said of a run after its hooks were closed can break it.
func TestHooksAfterTheEnd(t *testing.T) {
	h := newHooks(&Hooks{Reading: func(agent.Reading) {}, Output: func(driver.Stream, []byte) {}})
	h.close()
	h.reading(agent.Reading{})
	h.output(driver.Stdout, []byte("x"))
}
