package meter

import (
	"math"

	"github.com/rein-run/rein/agent"
)

// counts are the four numbers of tokens. No operation makes one negative or
// lets it overflow, whatever an agent tells.
type counts struct{ input, output, cacheRead, cacheWrite int64 }

const most = math.MaxInt64 / 16

func countsOf(u *agent.Usage) counts {
	c := func(n int64) int64 { return min(max(n, 0), most) }
	return counts{c(u.Input), c(u.Output), c(u.CacheRead), c(u.CacheWrite)}
}

func (c counts) each(d counts, f func(a, b int64) int64) counts {
	return counts{f(c.input, d.input), f(c.output, d.output), f(c.cacheRead, d.cacheRead), f(c.cacheWrite, d.cacheWrite)}
}

func (c *counts) add(d counts) {
	*c = c.each(d, func(a, b int64) int64 { return min(a+b, most) })
}

func (c *counts) sub(d counts) { *c = c.minus(d) }

// raise makes each field at least as large as in d.
func (c *counts) raise(d counts) { *c = c.each(d, func(a, b int64) int64 { return max(a, b) }) }

// minus is the difference, 0 where it would be negative.
func (c counts) minus(d counts) counts {
	return c.each(d, func(a, b int64) int64 { return max(a-b, 0) })
}

func (c counts) sum() int64 { return c.input + c.output + c.cacheRead + c.cacheWrite }

// clean makes an amount of money of whatever was told.
func clean(usd float64) float64 {
	if usd > 0 && usd < 1e12 { // also false for NaN
		return usd
	}
	return 0
}
