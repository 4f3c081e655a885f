package jobspec

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse holds every input to what callers rely on: a result or problems, and
// a result that keeps its promises.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"good/*.yaml", "bad/*.yaml"} {
		paths, err := filepath.Glob(filepath.Join(jobFiles, pattern))
		if err != nil || len(paths) == 0 {
			f.Fatalf("no seeds %s: %v", pattern, err)
		}
		for _, path := range paths {
			src, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	env := testEnv()
	f.Fuzz(func(t *testing.T, src []byte) {
		result, problems := Parse("fuzz.yaml", src, env)
		if (result == nil) != (len(problems) > 0) {
			t.Fatalf("result %v with problems %v", result, problems)
		}
		if result == nil {
			for _, p := range problems {
				if p.Message == "" {
					t.Fatalf("a problem without a message: %+v", p)
				}
			}
			return
		}
		checkJob(t, result)
		checkSource(t, result)
	})
}
