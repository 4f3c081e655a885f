package admin

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/combsched/comb/internal/base/document"
	"github.com/combsched/comb/internal/cli"
	"github.com/combsched/comb/internal/core/access"
)

// idFlags are the values of --uid and --gid.
type idFlags struct{ uid, gid string }

func (f *idFlags) add(c *cobra.Command, uid, gid string) {
	c.Flags().StringVar(&f.uid, "uid", "", "the number "+uid)
	c.Flags().StringVar(&f.gid, "gid", "", "the number "+gid)
}

// into reads the numbers of a new user or group.
func (f *idFlags) into(uid, gid *int64) (err error) {
	for _, one := range []struct {
		name, text string
		to         *int64
	}{{"uid", f.uid, uid}, {"gid", f.gid, gid}} {
		if one.text != "" && err == nil {
			*one.to, err = idOf(one.name, one.text)
		}
	}
	return err
}

// change reads the given numbers; "none" removes one.
func (f *idFlags) change(c *cobra.Command, uid, gid **int64) error {
	for _, one := range []struct {
		name, text string
		to         **int64
	}{{"uid", f.uid, uid}, {"gid", f.gid, gid}} {
		if !c.Flags().Changed(one.name) {
			continue
		}
		id := int64(access.NoID)
		if one.text != "none" {
			var err error
			if id, err = idOf(one.name, one.text); err != nil {
				return err
			}
		}
		*one.to = &id
	}
	return nil
}

// idOf reads a number. The server checks which are allowed.
func idOf(name, text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 {
		return 0, fmt.Errorf("--%s %s: want a number", name, document.Quote(text))
	}
	if id == 0 {
		return 0, fmt.Errorf("--%s 0: no task of a user runs as root", name)
	}
	return id, nil
}

// drawIDs prints the numbers that are set.
func drawIDs(t *cli.Table, uid, gid int64) {
	if uid != 0 {
		t.Row("uid", fmt.Sprint(uid))
	}
	if gid != 0 {
		t.Row("gid", fmt.Sprint(gid))
	}
}
