package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/combsched/comb/internal/spec/upload"
)

// How often and at what pause a busy server is asked again.
const (
	tries = 30
	pause = 2 * time.Second
)

// SendFolder sends a folder, unless the server has it already, and returns its digest. say is
// called with what the user should know.
func SendFolder(ctx context.Context, client *Client, dir string, say func(string)) (digest string, err error) {
	return sendFolder(ctx, client, dir, upload.Open, say)
}

// SendContext is SendFolder for the build context of an image, with its Dockerfile.
func SendContext(ctx context.Context, client *Client, dir, dockerfile string, say func(string)) (digest string, err error) {
	return sendFolder(ctx, client, dir, func(dir string, l upload.Limits) (*upload.Folder, error) {
		return upload.OpenContext(dir, dockerfile, l)
	}, say)
}

func sendFolder(ctx context.Context, client *Client, dir string, open func(string, upload.Limits) (*upload.Folder, error), say func(string)) (digest string, err error) {
	had, err := client.Uploads(ctx)
	if err != nil {
		return "", err
	}
	f, err := open(dir, upload.Limits{Bytes: had.LimitBytes, Files: had.LimitFiles})
	if err != nil {
		return "", err
	}
	defer f.Close()
	for _, line := range f.LeftOut {
		say(line)
	}
	what := fmt.Sprintf("%s: %d files and folders, %s, %s", dir, f.Files, upload.Size(f.Size), f.Digest)
	if slices.ContainsFunc(had.Uploads, func(u Upload) bool { return u.Digest == f.Digest }) {
		say(what + ", which the server has")
		return f.Digest, nil
	}
	say(what)
	for try := 1; ; try++ {
		err = sendOnce(ctx, client, f)
		if CodeOf(err) != CodeBusy || try == tries {
			return f.Digest, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pause):
		}
	}
}

// sendOnce sends a folder. If the archive cannot be made that is the error, whatever the server
// says about the part that it got.
func sendOnce(ctx context.Context, client *Client, f *upload.Folder) error {
	r, w := io.Pipe()
	made := make(chan error, 1)
	go func() {
		err := f.Write(w)
		made <- err
		w.CloseWithError(err)
	}()
	_, err := client.PutUpload(ctx, f.Digest, f.Size, r)
	r.CloseWithError(errDone)
	if fault := <-made; fault != nil && !errors.Is(fault, errDone) {
		return fault
	}
	return err
}

// errDone ends an archive that the server does not want any more.
var errDone = errors.New("the server has answered")
