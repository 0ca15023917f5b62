package proctree

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const statLine = "4711 (agent) S 10 4711 4700 0 -1 4194560 2210 99 3 1 150 50 1000 250 20 0 7 0 188799 1270000000 1295 18446744073709551615 1 1 0 0 0 0 0 4096 2143420159 0 0 0 17 1 0 0 0 0 0\n"

func TestParseStat(t *testing.T) {
	want := Proc{
		PID: 4711, PPID: 10, PGID: 4711, SID: 4700, Start: 188799, State: 'S', Threads: 7,
		Name: "agent", RSS: 1295, CPU: 2, Waited: 12.5,
	}
	for _, name := range []string{
		"agent", "", ")", "(", ") (x y", "a) Z 1 1 1 (b", "new\nline", "\xff\x00\x1b[2J", strings.Repeat("k", 64),
	} {
		want.Name = name
		got, err := parseStat([]byte(strings.Replace(statLine, "agent", name, 1)))
		if err != nil {
			t.Errorf("name %q: %v", name, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("name %q (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseStatRefuses(t *testing.T) {
	for _, line := range []string{
		"",
		"4711",
		"4711 (agent",
		"4711 (agent)",
		"4711 (agent) S",
		"(agent) " + statLine,
		strings.Replace(statLine, "4711", "", 1),
		strings.Replace(statLine, "4711", "-4711", 1),
		strings.Replace(statLine, "4711 ", "0 ", 1),
		strings.Replace(statLine, "4711 ", "99999999999 ", 1),
		strings.Replace(statLine, " S ", " SS ", 1),
		strings.Replace(statLine, " 10 ", " x ", 1),
		strings.Replace(statLine, " 10 ", "  ", 1),
		strings.Replace(statLine, " 188799 ", " ", 1)[:90],
	} {
		if p, err := parseStat([]byte(line)); err == nil {
			t.Errorf("parseStat(%q) = %+v", line, p)
		}
	}
}

// Against the kernel: this very process, and the name it was given.
func TestReadName(t *testing.T) {
	cmd, _ := start(t, 1, "named")
	p, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if want := ") S 1 (x\n y)"; p.Name != want {
		t.Errorf("name = %q, want %q", p.Name, want)
	}
	if p.PPID != os.Getpid() || p.RSS <= 0 {
		t.Errorf("Read = %+v", p)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine))
	f.Add([]byte("1 () R 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0"))
	f.Add([]byte("2 (a) b) Z -1 -1 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 99999999999999999999 0 0 0 0"))
	if b, err := os.ReadFile("/proc/self/stat"); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := parseStat(line)
		if err != nil {
			return
		}
		if p.PID <= 0 || p.RSS < 0 || p.State == 0 {
			t.Fatalf("parseStat(%q) = %+v", line, p)
		}
		// What was read comes out again when it is written.
		again := fmt.Sprintf("%d (%s) %c %d %d %d 0 0 0 0 0 0 0 0 0 0 0 0 0 %d 0 %d 0 %d\n",
			p.PID, p.Name, p.State, p.PPID, p.PGID, p.SID, p.Threads, int64(p.Start), p.RSS)
		q, err := parseStat([]byte(again))
		p.CPU, p.Waited = 0, 0
		if err != nil || p != q {
			t.Fatalf("parseStat(%q) = %+v,\nof %q = %+v, %v", line, p, again, q, err)
		}
	})
}
