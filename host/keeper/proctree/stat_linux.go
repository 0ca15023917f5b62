package proctree

import (
	"bytes"
	"errors"
	"math"
)

// hertz is USER_HZ, the unit of the times in /proc/PID/stat: 100 on every
// architecture that Go runs on, whatever the kernel's own tick is.
const hertz = 100

var errStat = errors.New("malformed stat line")

// parseStat reads a line of /proc/PID/stat (proc_pid_stat(5)) but for the unit
// of RSS, which stays in pages.
//
// The name is the process's own choice and may hold spaces, newlines and
// parentheses; what follows it never holds a parenthesis, so the last one ends
// it.
func parseStat(line []byte) (Proc, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 2 || end < open || line[open-1] != ' ' {
		return Proc{}, errStat
	}
	pid, ok := number(line[:open-1])
	if !ok || pid <= 0 || pid > math.MaxInt32 {
		return Proc{}, errStat
	}
	p := Proc{PID: int(pid), Name: string(line[open+1 : end])}

	rest := line[end+1:]
	var field [25]int64 // by the numbers of the man page; the state is field 3
	for n := 3; n < len(field); n++ {
		if len(rest) == 0 || rest[0] != ' ' {
			return Proc{}, errStat
		}
		word := rest[1:]
		if i := bytes.IndexAny(word, " \n"); i >= 0 {
			word = word[:i]
		}
		rest = rest[1+len(word):]
		if n == 3 {
			if len(word) != 1 || word[0]|0x20 < 'a' || word[0]|0x20 > 'z' {
				return Proc{}, errStat
			}
			p.State = word[0]
			continue
		}
		if field[n], ok = number(word); !ok {
			return Proc{}, errStat
		}
	}
	for _, n := range []int{4, 5, 6, 20} {
		if field[n] < math.MinInt32 || field[n] > math.MaxInt32 {
			return Proc{}, errStat
		}
	}
	p.PPID, p.PGID, p.SID = int(field[4]), int(field[5]), int(field[6])
	p.CPU = float64(field[14])/hertz + float64(field[15])/hertz
	p.Waited = float64(field[16])/hertz + float64(field[17])/hertz
	p.Threads = int(field[20])
	p.Start = uint64(field[22])
	p.RSS = max(field[24], 0)
	return p, nil
}

// number parses a decimal number without an allocation. What does not fit
// int64 (field 25, RLIM_INFINITY, is never asked for) is taken as its maximum:
// it is no reason not to see the process.
func number(b []byte) (int64, bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := int64(c - '0')
		if n > (math.MaxInt64-d)/10 {
			n = math.MaxInt64
			continue
		}
		n = n*10 + d
	}
	if neg {
		n = -n
	}
	return n, true
}
