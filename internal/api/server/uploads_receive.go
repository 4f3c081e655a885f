package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
	"github.com/combsched/comb/internal/spec/upload"
)

const (
	grace         = 10 * time.Second       // for a body to begin, and for pauses; after that it must keep rate
	rate          = 64 << 10               // bytes a second at least
	uploadLinger  = 60 * time.Second       // for the answer, once the body has come
	linger        = 500 * time.Millisecond // for what is still being sent and not wanted
	tryUploadNext = 2                      // seconds until a busy server should be asked again
)

// uploadReceiver receives uploads into a depot.
type uploadReceiver struct{ Depot *upload.Depot }

// List returns the uploads of a subject.
func (h uploadReceiver) List(subject model.Subject) (rest.UploadList, error) {
	limits, quota := h.Depot.Limits()
	out := rest.UploadList{Uploads: []rest.Upload{}, LimitBytes: limits.Bytes, LimitFiles: limits.Files, QuotaBytes: quota}
	list, err := h.Depot.List(string(subject))
	for _, u := range list {
		out.Uploads = append(out.Uploads, rest.Upload{Digest: u.Digest, Size: u.Size, Used: model.Time(u.Used.UnixMicro()), Jobs: u.Jobs})
	}
	return out, err
}

// Put receives one upload. Its error is a *rest.Problem, or the server's own.
func (h uploadReceiver) Put(w http.ResponseWriter, r *http.Request, subject model.Subject, digest string) (rest.Upload, error) {
	body := &paced{from: r.Body, rc: http.NewResponseController(w), now: time.Now}
	limits, _ := h.Depot.Limits()
	if r.ContentLength > limits.Bytes {
		body.leave()
		return rest.Upload{}, rest.NewProblem(http.StatusRequestEntityTooLarge, rest.CodeTooLarge, fmt.Sprintf(
			"the upload has %s, more than the %s that this server takes: leave out what the job does not need; data belongs in a storage",
			upload.Size(r.ContentLength), upload.Size(limits.Bytes)))
	}
	size, err := h.Depot.Put(string(subject), digest, body)
	_ = body.rc.SetWriteDeadline(time.Now().Add(uploadLinger))
	if err == nil && body.n == size {
		w.Header().Del("Connection") // all of it was read
		_ = body.rc.SetReadDeadline(time.Now().Add(uploadLinger))
	} else {
		body.leave()
	}
	return rest.Upload{Digest: digest, Size: size}, body.problem(err)
}

// paced is a body that must come at a minimum pace. Only the time of waiting for it counts,
// since between two reads the server is busy with its own disk.
type paced struct {
	from   io.Reader
	rc     *http.ResponseController
	now    func() time.Time
	waited time.Duration
	n      int64
	fault  error // of the network
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	begun := p.now()
	_ = p.rc.SetReadDeadline(begun.Add(min(grace, grace+time.Duration(p.n/rate)*time.Second-p.waited)))
	n, err := p.from.Read(b)
	p.waited += p.now().Sub(begun)
	p.n += int64(n)
	if err != nil && err != io.EOF {
		p.fault = err
	}
	return n, err
}

// leave ends the wait for what is still being sent.
func (p *paced) leave() { _ = p.rc.SetReadDeadline(time.Now().Add(linger)) }

// problem turns an error of a depot into an answer.
func (p *paced) problem(err error) error {
	var slow net.Error
	switch {
	case err == nil:
		return nil
	case p.fault != nil && errors.As(p.fault, &slow) && slow.Timeout():
		return rest.NewProblem(http.StatusRequestTimeout, rest.CodeInvalid, fmt.Sprintf(
			"the upload came too slowly: %s within %v; it must come with %d KiB a second, without a pause of %v",
			upload.Size(p.n), p.waited.Round(time.Second), rate>>10, grace))
	case p.fault != nil:
		return rest.NewProblem(http.StatusBadRequest, rest.CodeInvalid, "the upload cannot be read: "+p.fault.Error())
	case errors.Is(err, upload.ErrArchive), errors.Is(err, upload.ErrDigest):
		return rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeInvalid, "the upload is refused: "+err.Error())
	case errors.Is(err, upload.ErrQuota):
		return rest.NewProblem(http.StatusConflict, rest.CodeConflict, err.Error())
	case errors.Is(err, upload.ErrFull):
		return rest.NewProblem(http.StatusInsufficientStorage, rest.CodeStorageFull, "the upload is refused: "+err.Error())
	case errors.Is(err, upload.ErrBusy):
		busy := rest.NewProblem(http.StatusTooManyRequests, rest.CodeBusy, err.Error())
		busy.Seconds = tryUploadNext
		return busy
	}
	return err
}
