package keeper

import "time"

const (
	// paceTime is how often the pace is looked at, floodRate what makes it a
	// flood: 25 MB/s is more than any agent says and less than a build can print.
	paceTime  = 10 * time.Millisecond
	floodRate = 256 << 10 // bytes in paceTime

	// enough is a piece that is worth a wake-up by itself, batch one that is
	// worth an announcement to a client that is at work.
	enough = 512 << 10
	batch  = 1 << 20
)

// pace lets a flood gather for a moment before it is taken on: on the way from
// the pipe into the spool, and on the way of the announcements to the client.
// What came so far is on its way meanwhile; a stream that is no flood is never
// held up.
type pace struct {
	since time.Time
	bytes int
	flood bool
}

func (p *pace) moved(n int) {
	p.bytes += n
	now := time.Now()
	if d := now.Sub(p.since); d >= paceTime {
		p.flood = p.bytes >= floodRate && d < 4*paceTime
		p.since, p.bytes = now, 0
	}
	if p.flood && n < enough {
		nap()
	}
}
