package job

import (
	"testing"
	"testing/synctest"
)

// TestEndedPartitionGrows: a partition that was read to its end and has more now holds its stream back like one that never
// ended, beside another one that is new.
func TestEndedPartitionGrows(t *testing.T) {
	for range 20 { // who reads first is up to the scheduler
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "auth")
			s := w.stream("auth")
			s.write("0", event(1, "a", "x"))
			s.write("1", event(1, "c", "x"))
			s.finish()
			w.once()
			for i := 10; i < 300; i += 2 {
				s.write("0", event(i, "a", "x"))
				s.write("2", event(i+1, "b", "x"))
			}
			s.finish()
			l := w.run(func(c *Config) { c.Once = true })
			if err := l.wait(); err != nil {
				t.Fatal(err)
			}
			if st := l.Status().Streams[0]; st.Returned != 0 || st.Late != 0 {
				t.Errorf("%d returned, %d late", st.Returned, st.Late)
			}
			if got := w.sent("out"); len(got) != 145 {
				t.Errorf("%d alerts", len(got))
			}
		})
	}
}
