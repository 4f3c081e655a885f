package task

import (
	"bytes"
	"encoding/json"
	"testing"
)

func FuzzProgressLine(f *testing.F) {
	f.Add([]byte(`{"step": 3, "loss": NaN, "note": "\\\"Infinity"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		quoted := quoteNoNumbers(line)
		if json.Valid(line) && !bytes.Equal(quoted, line) {
			t.Errorf("%q becomes %q", line, quoted)
		}
	})
}
