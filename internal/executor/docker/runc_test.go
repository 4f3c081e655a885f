package docker

import (
	"strings"
	"testing"
)

func TestOldRunc(t *testing.T) {
	for version, old := range map[string]bool{
		"1.1.5+ds1": true, "1.1.5": true, "1.0.0-rc95": true, "1.2.7": true, "1.2.8": false, "1.3.2": true, "1.3.3": false, "1.4.0": false,
		"1.5.2": false, "2.0.0": false, "": false, "1.2": false, "x.y.z": false, "1.2.": false, "99999999999999999999.1.1": false,
	} {
		got := OldRunc(version)
		if (got != "") != old || old && !strings.Contains(got, "its runc "+version+" has") {
			t.Errorf("%q: %q", version, got)
		}
	}
}
