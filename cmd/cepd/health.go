package main

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// health is what /healthz and /ready answer.
type health struct {
	Status string `json:"status"`
	// Degraded names each part that is not as it should be, and why.
	Degraded []string `json:"degraded,omitempty"`
}

// healthz says whether anything is not as it should be.
func (d *daemon) healthz(c echo.Context) error {
	s, restored := d.status()
	h, code := health{Status: "ok"}, http.StatusOK
	if !restored {
		h.Status, code = phaseStarting, http.StatusServiceUnavailable
	} else if h.Degraded = degraded(s.Status); len(h.Degraded) > 0 {
		h.Status, code = "degraded", http.StatusServiceUnavailable
	}
	return c.JSON(code, h)
}

// ready says the same.
func (d *daemon) ready(c echo.Context) error { return d.healthz(c) }
