package machine

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCardsOfADriver: a GPU's device file has the driver's own number, not its index.
func TestCardsOfADriver(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d := Driver{Program: filepath.Join(dir, "smi"), Dev: dir, Proc: dir}
	fails := func(want string) {
		t.Helper()
		if _, err := d.Cards(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%v, not %q", err, want)
		}
	}
	fails("the driver is not there: /dev/nvidiactl is missing")
	write(NVIDIAControl, "")
	fails("the driver is not there: smi is not found")
	write("smi", "#!/bin/sh\necho '0, GPU-a, 00000000:3B:00.0'; echo '1, GPU-b, 00000000:5E:00.0'\n")
	write("gpus/0000:3b:00.0/information", "Model: \t\t NVIDIA H200\nDevice Minor: \t 3\n")
	cards, err := d.Cards(t.Context())
	one, two := Card{"GPU-a", "nvidia3"}, Card{"GPU-b", "nvidia1"}
	if err != nil || len(cards) != 2 || cards[0] != one || cards[1] != two {
		t.Errorf("%v, %v", cards, err)
	}
	write("smi", "#!/bin/sh\necho 'No devices were found'\n")
	if cards, err := d.Cards(t.Context()); err != nil || len(cards) != 0 {
		t.Errorf("%v, %v", cards, err)
	}
	write("smi", "#!/bin/sh\necho '0, GPU-a, x'; echo '0, GPU-b, x'\n")
	fails(`the driver does not answer: smi prints the line "0,GPU-b,x"`)
}
