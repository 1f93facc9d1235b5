package rulesapi_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/labstack/echo/v4"

	"github.com/cepd/cepd/cep/alert"
	"github.com/cepd/cepd/rules"
	"github.com/cepd/cepd/rules/rulesapi"
)

func Example() {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "login.yaml"), []byte("version: 1\nrules:\n- {id: login, from: auth, by: [user], where: ok == false}\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	set, _, err := rules.Load([]string{dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	api, err := rulesapi.New(rulesapi.Config{
		Daemon:     &fake{dir: dir, set: set, lock: make(chan struct{}, 1)},
		ManagedDir: filepath.ToSlash(dir) + "/managed", HistoryDir: filepath.Join(dir, ".history"), Feed: rulesapi.NewFeed(0, alert.AppendJSON),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = api.Close() }()
	api.Observe(set)

	e := echo.New()
	e.HTTPErrorHandler = rulesapi.HandleError
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc { // who asks; here it is always the same
		return func(c echo.Context) error {
			r := c.Request()
			c.SetRequest(r.WithContext(rulesapi.WithCaller(r.Context(), rulesapi.Caller{Name: "ann", Role: rulesapi.Viewer})))
			return next(c)
		}
	})
	api.Register(e.Group(rulesapi.Prefix))
	for _, path := range []string{"/v1/rules?q=log", "/v1/rules/nothing"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Printf("%d %.28s\n", w.Code, w.Body)
	}
	// Output:
	// 200 {"items":[{"id":"login","rev
	// 404 {"type":"/v1/docs#not-found"
}
