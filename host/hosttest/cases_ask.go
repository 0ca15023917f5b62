package hosttest

import (
	"context"
	"encoding/json"
	"path"
	"strings"

	"github.com/rein-run/rein/host/driver"
)

// askCases: a program of the command asks the Output, and gets its answer. A
// host whose Look names no keeper's program has no such ability, and nobody will
// ask it for one.
func askCases() []testCase {
	return []testCase{
		{"Ask/Answered", askAnswered},
		{"Ask/NobodyAnswers", askNobody},
	}
}

// asker is an Output that answers.
type asker struct {
	*sink
	asked chan string
}

func (a asker) Ask(q []byte) driver.Reply {
	a.asked <- string(q)
	return driver.Reply{Exit: 3, Stdout: []byte("out\x00\xff"), Stderr: []byte("why\n")}
}

// asking is a command that asks, in a directory of its own with a file in it.
func (k *kit) asking(question string) (spec *driver.Spec, ok bool) {
	l, looks := k.d.(driver.Looker)
	if !looks {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	place, err := l.Look(ctx, "", nil)
	if err != nil {
		k.Fatalf("Look: %v", err)
	}
	if len(place.Keeper) == 0 {
		k.Log("Look names no keeper's program: nothing can be asked here")
		return nil, false
	}
	spec = k.spec()
	dir := path.Join(place.Private, spec.ID)
	argv, _ := json.Marshal(append(place.Keeper[:len(place.Keeper):len(place.Keeper)], "ask", dir))
	spec.Argv = append(spec.Argv, "ask="+question+","+string(argv))
	spec.Ask = &driver.Ask{Dir: dir, Files: []driver.File{{Name: "placed", Data: []byte("x")}}}
	return spec, true
}

func askAnswered(k *kit) {
	spec, ok := k.asking("may I")
	if !ok {
		return
	}
	o := newSink()
	a := asker{o, make(chan string, 1)}
	r := k.startTo(spec, o, a)
	k.wantExited(r.end(), 0)
	if got, want := o.text(driver.Stdout), "exit 3 \"out\\x00\\xff\" \"why\\n\""; got != want {
		k.Errorf("the program that asked got %s, want %s", got, want)
	}
	select {
	case q := <-a.asked:
		if q != "may I" {
			k.Errorf("the Output was asked %q", q)
		}
	default:
		k.Errorf("the Output was not asked")
	}
}

func askNobody(k *kit) {
	spec, ok := k.asking("may I")
	if !ok {
		return
	}
	_, o := k.run(spec)
	if got := o.text(driver.Stdout); !strings.HasPrefix(got, "exit 2 ") || strings.HasSuffix(got, `""`) {
		k.Errorf("nobody answers, and the program got %s: want exit 2 and a text on stderr", got)
	}
}
