package server

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/combsched/comb/internal/api/rest"
	"github.com/combsched/comb/internal/core/model"
)

// TestHistoryIsToldOneAtATime: a caller to whom a history is being told is asked to come again.
func TestHistoryIsToldOneAtATime(t *testing.T) {
	s := New(Options{})
	s.telling.Store(model.Subject(""), true)
	_, err := pastOf(context.Background(), s, &jobRead{})
	var p *rest.Problem
	if !errors.As(err, &p) || p.Status != http.StatusTooManyRequests || p.Seconds == 0 {
		t.Errorf("%v", err)
	}
	if _, still := s.telling.Load(model.Subject("")); !still {
		t.Error("who was refused ended the turn of the other request")
	}
}
