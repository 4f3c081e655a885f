package rest

import (
	"context"
	"io"
	"net/http"

	"github.com/combsched/comb/internal/core/model"
)

// UploadList is the uploads of a user, and its limits.
type UploadList struct {
	Uploads    []Upload `json:"uploads"`
	LimitBytes int64    `json:"limit_bytes" doc:"Of one upload"`
	LimitFiles int      `json:"limit_files" doc:"Files, folders and links of one upload"`
	QuotaBytes int64    `json:"quota_bytes" doc:"Of all uploads of a user"`
}

// Upload is a folder with code that a user sent.
type Upload struct {
	Digest string     `json:"digest" doc:"sha256:..., of its archive"`
	Size   int64      `json:"size" doc:"Bytes of its archive"`
	Used   model.Time `json:"used,omitempty" doc:"When it was sent, or named by a job, last"`
	Jobs   int        `json:"jobs,omitempty" doc:"How many jobs have it beside their files, which keeps it"`
}

// Uploads lists the caller's uploads.
func (c *Client) Uploads(ctx context.Context) (UploadList, error) {
	var out UploadList
	err := c.do(ctx, call{method: http.MethodGet, path: "/uploads"}, &out)
	return out, err
}

// stream is a body that is read while it is sent.
type stream struct {
	io.Reader
	size int64
}

// PutUpload sends an archive of size bytes. If the server has it already it is not read.
func (c *Client) PutUpload(ctx context.Context, digest string, size int64, archive io.Reader) (Upload, error) {
	var out Upload
	err := c.do(ctx, call{method: http.MethodPut, path: "/uploads/" + element(digest), media: "application/x-tar", stream: &stream{archive, size}}, &out)
	return out, err
}
