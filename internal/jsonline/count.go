package jsonline

import (
	"math"
	"strconv"
)

// Count is a number of tokens, milliseconds or attempts from a line that is
// not trusted. It decodes what is a number, clamped to 0..2^50 so that sums
// cannot overflow, and makes 0 of anything else.
type Count int64

const maxCount = 1 << 50

// UnmarshalJSON never fails: one odd member must not cost the whole line.
func (c *Count) UnmarshalJSON(b []byte) error {
	*c = 0
	f, err := strconv.ParseFloat(string(b), 64)
	if err == nil && !math.IsNaN(f) && f > 0 {
		*c = Count(min(f, maxCount))
	}
	return nil
}

// Money is an amount in dollars under the same rules, at most 1e9.
type Money float64

// UnmarshalJSON never fails.
func (m *Money) UnmarshalJSON(b []byte) error {
	*m = 0
	f, err := strconv.ParseFloat(string(b), 64)
	if err == nil && !math.IsNaN(f) && f > 0 {
		*m = Money(min(f, 1e9))
	}
	return nil
}
