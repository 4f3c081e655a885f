package containers

import (
	"testing"

	"github.com/combsched/comb/internal/test/enginetest"
	"github.com/combsched/comb/internal/test/walk"
)

// The way of a user with images, as a black box.
func TestWalkInContainers(t *testing.T) {
	e := enginetest.Start(t, "--live-restore")
	t.Setenv("DOCKER_HOST", e.Host())
	images := [2]string{"local.test/one:1", "local.test/two:1"}
	e.Import(images[0], map[string]string{"etc/os-release": "ID=one\n"})
	e.Import(images[1], map[string]string{"etc/os-release": "ID=two\n"})
	if err := walk.InContainers(t.Context(), walk.Options{Bin: bin, Out: t.Output(), Images: images}); err != nil {
		t.Fatal(err)
	}
}
