package redissink

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// RouteClientLog sends what the client library logs to l, at the level of debugging: what matters comes back as an error of a
// call too. The library has one logger for all, so this is for the program's main to call, once.
func RouteClientLog(l *slog.Logger) { redis.SetLogger(clientLogger{l}) }

type clientLogger struct{ log *slog.Logger }

// Printf is how the library logs.
func (c clientLogger) Printf(ctx context.Context, format string, args ...any) {
	if c.log.Enabled(ctx, slog.LevelDebug) {
		c.log.DebugContext(ctx, "redis client", "detail", fmt.Sprintf(format, args...))
	}
}
