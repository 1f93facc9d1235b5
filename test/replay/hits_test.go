package replay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hit is what a rule finds in a recording, and why that is right.
type hit struct {
	rec     recording
	rule    string
	alerts  int
	because string
}

// hits is every alert of every rule over every recording. Rules of one kind of log find nothing in another, where their
// fields are missing; that the rules for hosts find nothing in the recordings of other attacks says more.
var hits = []hit{
	{psremoting, "remote-powershell-session", 1, "the session that was opened from 172.18.39.105; its process is the one that the attack began with"},
	{dllHijack, "tool-copied-over-smb.any-user", 1, "wbemcomn.dll, which the attack put into the WMI folder; the kernel wrote it as SYSTEM, so the strict rule is silent"},
	{regsvr32, "regsvr32-connects.anywhere", 1, "the script fetched from 10.10.10.5:8444; a private address, so the strict rule is silent"},
	{psexec, "service-started-remotely", 1, "cmd.exe, started by the service manager after a call from 172.18.39.5"},
	{psexec, "service-installed-after-logon", 1, "the service Updater, installed in the session 0x2990d17"},
	{addUser, "password-reset-after-logon.any-account", 1, "the new account's first password, set in the session 0x551686; its name and number are not privileged, so the strict rule is silent"},
	{wmicScript, "wmic-runs-script", 1, "jscript.dll in the WMIC that was given a style sheet from the internet"},

	{cloudtrail, "user-gets-key", 2, "the two users that the attack made for their keys"},
	{cloudtrail, "user-gets-policy-and-key", 1, "malicious-iam-user; its policy came in the second of its making, so position decides"},
	{cloudtrail, "user-gets-login", 2, "the two users that the attack made for the console"},
	{cloudtrail, "user-logs-in", 1, "the one of them that was used; the other login at the console is of a user that was there before"},
	{cloudtrail, "user-short-lived", 4, "all four users are gone within ten minutes"},
	{cloudtrail, "user-stays", 2, "of the four two live longer than four minutes; the others are deleted after 3m32s and 3m35s"},
	{cloudtrail, "windows-passwords-read", 2, "29 calls within three seconds make two groups of ten, and nine are left"},

	{ssh, "five-failures", 95, "the figure"},
	{ssh, "five-failures.each", 439, "the figure"},
	{ssh, "ten-failures", 43, "the figure"},
	{ssh, "twenty-five-failures", 16, "the figure"},
	{ssh, "login", 1, "the only login, from an address that never failed: so failures-then-login is silent"},
	{ssh, "repeated-failure", 2, "two lines that stand for five failures each"},
	{ssh, "repeated-failure.as-one", 95, "a line counts once, so these two bring nothing to five"},

	{ssh, "spray", 15, "the figure"},

	{occupancy, "silence", 228, "the figure: a sensor that reports when it likes"},
	{latency, "silence", 1, "the figure: the failure in the file's name"},
	{taxi, "silence", 10319, "a count every half hour: each one but the last is followed by half an hour of silence"},

	// Shapes are counted by figures over rows in the order of the file; here rows stand in the order of time. The series of
	// temperatures goes back once, and eleven of its rows are late.
	{temperature, "v-six", 2, "the figure"},
	{temperature, "v-six.each", 13, "the figure"},
	{temperature, "v-three", 89, "the figure"},
	{temperature, "v-three.each", 153, "the figure"},
	{temperature, "w", 2749, "the figure is 2750: the late rows held one more"},
	{temperature, "w.each", 11413, "the figure is 11419: the late rows held six more"},
	{taxi, "v-six", 115, "the figure: nights and mornings"},
	{taxi, "v-six.each", 940, "the figure"},
	{taxi, "v-three", 332, "the figure"},
	{taxi, "v-three.each", 1720, "the figure"},
	{taxi, "w", 594, "the figure"},
	{taxi, "w.each", 5528, "the figure"},
	{occupancy, "v-three", 7, "a jagged series: three falls and three rises in a row are rare"},
	{occupancy, "v-three.each", 9, "the same, once for each row that a fall of three can begin at"},
	{occupancy, "w", 279, "a jagged series falls and rises all the time"},
	{occupancy, "w.each", 1051, "the same, once for each row"},
	{latency, "v-three", 4, "a jagged series"},
	{latency, "v-three.each", 4, "the same, once for each row"},
	{latency, "w", 525, "a jagged series"},
	{latency, "w.each", 1826, "the same, once for each row"},
}

func TestHits(t *testing.T) {
	found := map[string]bool{}
	for _, rec := range recordings {
		got, want := map[string]int{}, map[string]int{}
		for _, a := range rec.run(t, 0).alerts {
			got[a.Rule]++
			found[a.Rule] = true
		}
		for _, h := range hits {
			if h.rec.name == rec.name {
				want[h.rule] = h.alerts
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", rec.name, diff)
		}
	}
	// What never fires must be meant to: these are rules that the recorded attacks do not meet.
	silent := map[string]bool{
		"tool-copied-over-smb": true, "regsvr32-connects": true, "password-reset-after-logon": true, "failures-then-login": true,
	}
	for _, r := range load(t).Rules {
		if found[r.ID] == silent[r.ID] {
			t.Errorf("rule %s: found something: %v, meant to be silent: %v", r.ID, found[r.ID], silent[r.ID])
		}
	}
}
