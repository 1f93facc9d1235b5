package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/cepd/cepd/cep"
)

// town generates the events of the demo: a working day of a small company that sells things on the web. Its people log in,
// pay, order and work; its machines report; and a few plots unfold that the shipped rules are there to find.
//
// The ordinary life is made so that no rule matches it, and each plot has people, cards and machines of its own, so the
// number of alerts of each rule is known: it is in planted, and the demo and its test hold the rules to it.
type town struct {
	rnd     *rand.Rand
	events  []townEvent
	planted map[string]int // alerts by rule id
	// refused, late and future are the events that cannot be decoded, that arrive too late, and that come from a clock
	// which is wrong by decades: every real stream has some.
	refused, late, future int
}

// townEvent is one line of one stream.
type townEvent struct {
	at     cep.Time
	arrive cep.Time // when it is read: streams deliver out of order
	stream string
	line   []byte
}

const (
	// townEventsMin holds all plots and an ordinary life around them.
	townEventsMin = 20_000
	// townEventsMax is what fits into the memory of a laptop, at some 300 bytes an event.
	townEventsMax = 5_000_000
	// townDay is the length of the day: longer than the longest window of the shipped rules, so that each can act.
	townDay = 12 * cep.Hour
	// townDelayMax is the largest delay between an event and its arrival, but for late ones; the demo's lateness is above.
	townDelayMax = 3 * cep.Second
)

var townMorning = cep.Time(time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC).UnixNano())

// townStreams are the streams in the order of the demo's configuration.
var townStreams = []string{"auth", "payments", "orders", "sensors", "iam", "cloud", "approvals", "process", "trades", "okta", "deploys", "requests", "zigbee"}

// newTown generates n events, n >= townEventsMin. Equal seeds give equal events.
func newTown(n int, seed uint64) *town {
	t := &town{rnd: rand.New(rand.NewPCG(seed, 0x636570)), planted: map[string]int{}}
	t.passwordGuessers()
	t.sprayers()
	t.travellers()
	t.chiefs()
	t.consoleUsers()
	t.cardThieves()
	t.launderers()
	t.accountThieves()
	t.debtors()
	t.couriers()
	t.refunders()
	t.deadSensors()
	t.brokenMachines()
	t.ovens()
	t.gateways()
	t.rogueAdmins()
	t.intruders()
	t.besiegers()
	t.traders()
	t.thumbs()
	t.releases()
	t.pathfinders()
	t.doors()
	t.damagedLines()
	t.wrongClock()
	// The ordinary life: what is left after the plots, in the shares of such a company. Payments fill up to exactly n.
	left := n - len(t.events)
	t.people(left / 5)
	t.shoppers(left / 10)
	t.machines(left / 4)
	t.administrators(left / 100)
	t.computers(left / 6)
	t.customers(n - len(t.events))
	t.deliver()
	return t
}

// deliver gives each event its time of arrival and puts them in this order.
func (t *town) deliver() {
	for i := range t.events {
		if e := &t.events[i]; e.arrive == 0 {
			e.arrive = e.at + t.upTo(townDelayMax)
		}
	}
	slices.SortStableFunc(t.events, func(a, b townEvent) int { return cmp.Compare(a.arrive, b.arrive) })
}

// add appends an event. fields is the inside of a JSON object.
func (t *town) add(at cep.Time, stream, format string, args ...any) {
	line := make([]byte, 0, 192) // most events have 100 to 190 bytes
	line = append(line, `{"time":"`...)
	line = at.Std().AppendFormat(line, "2006-01-02T15:04:05.000Z")
	line = append(line, `",`...)
	line = fmt.Appendf(line, format, args...)
	t.events = append(t.events, townEvent{at: at, stream: stream, line: append(line, '}')})
}

// upTo returns a time in [0, d), in whole milliseconds as clocks of servers give them.
func (t *town) upTo(d cep.Time) cep.Time {
	return cep.Time(t.rnd.Int64N(int64(d/cep.Millisecond))) * cep.Millisecond
}

// between returns a time of the day between two hours of it.
func (t *town) between(from, to cep.Time) cep.Time { return townMorning + from + t.upTo(to-from) }

func (t *town) chance(percent int) bool { return t.rnd.IntN(100) < percent }

func pick[T any](t *town, list []T) T { return list[t.rnd.IntN(len(list))] }

// place is where people are.
type place struct {
	country  string
	lat, lon float64
}

var (
	homes = []place{{"DE", 52.52, 13.40}, {"DE", 53.55, 9.99}, {"AT", 48.21, 16.37}, {"CH", 47.37, 8.54}}
	// far are all further from every home than an aeroplane flies in an hour.
	far       = []place{{"AU", -33.87, 151.21}, {"PE", -12.05, -77.04}, {"JP", 35.68, 139.69}, {"NG", 6.52, 3.38}}
	merchants = []string{"grocer", "bookshop", "cinema", "pharmacy", "garage", "florist", "bakery", "hardware"}
	images    = []string{"chrome.exe", "outlook.exe", "excel.exe", "teams.exe", "explorer.exe", "svchost.exe", "code.exe"}
)

func (t *town) login(at cep.Time, service, outcome, user, ip string, p place) {
	t.add(at, "auth", `"service":%q,"action":"login","outcome":%q,"user":%q,"src_ip":%q,"geo":{"country":%q,"lat":%.3f,"lon":%.3f}`,
		service, outcome, user, ip, p.country, p.lat, p.lon)
}

// people log in: the VPN in the morning and after lunch, then servers and now and then the console. Somebody mistypes a
// password up to three times, and sessions are half an hour apart, so nobody looks like a guesser.
func (t *town) people(n int) {
	for u := 0; n > 0; u++ {
		user, ip, home := "user"+strconv.Itoa(u), fmt.Sprintf("10.%d.%d.%d", u>>16, u>>8&255, u&255), pick(t, homes)
		sessions := []cep.Time{t.upTo(cep.Hour / 2), 5*cep.Hour + t.upTo(cep.Hour/2)}
		for h := cep.Hour; h < townDay-cep.Hour; h += cep.Hour/2 + t.upTo(3*cep.Hour) {
			sessions = append(sessions, h+cep.Hour/2)
		}
		for i, at := range sessions {
			service := "sshd"
			if i < 2 {
				service = "vpn"
			} else if t.chance(20) {
				service = "console"
			}
			at += townMorning
			if t.chance(15) {
				for range 1 + t.rnd.IntN(3) {
					t.login(at, service, "failure", user, ip, home)
					at += 5*cep.Second + t.upTo(20*cep.Second)
					n--
				}
			}
			t.login(at, service, "success", user, ip, home)
			if n--; n <= 0 {
				return
			}
		}
	}
}

// passwordGuessers: some get in, some give up, one is our own scanner.
func (t *town) passwordGuessers() {
	for i := range 14 {
		ip, user := fmt.Sprintf("203.0.113.%d", i+1), pick(t, []string{"root", "admin", "postgres", "deploy"})
		at := t.between(0, 11*cep.Hour)
		tries := 5 + t.rnd.IntN(60)
		for range tries {
			t.login(at, "sshd", "failure", user, ip, pick(t, far))
			at += 2*cep.Second + t.upTo(6*cep.Second)
		}
		if i%2 == 0 {
			// A far place of one log-in alone is no journey: the user of the guessed account is not one of the people.
			t.login(at, "sshd", "success", user+strconv.Itoa(i), ip, pick(t, far))
			t.planted["ssh-bruteforce-then-success"]++
		}
	}
	at := t.between(cep.Hour, 10*cep.Hour)
	for range 20 {
		t.login(at, "sshd", "failure", "probe", "198.51.100.9", homes[0])
		at += cep.Second
	}
	t.login(at, "sshd", "success", "probe", "198.51.100.9", homes[0])
}

// sprayers try one password on many accounts; those that try nine stay below ten.
func (t *town) sprayers() {
	for i := range 6 {
		ip, at := fmt.Sprintf("203.0.113.%d", 100+i), t.between(0, 11*cep.Hour)
		accounts := 9
		if i%2 == 0 {
			accounts = 10 + t.rnd.IntN(10)
			t.planted["password-spray"]++
		}
		for a := range accounts {
			t.login(at, "console", "failure", "staff"+strconv.Itoa(a), ip, pick(t, far))
			at += 5*cep.Second + t.upTo(20*cep.Second)
		}
	}
}

// chiefs log in at home in the morning; in the afternoon somebody does in their name from abroad and hands out rights.
func (t *town) chiefs() {
	for i := range 3 {
		user, at := "chief"+strconv.Itoa(i), t.between(0, cep.Hour)
		t.login(at, "vpn", "success", user, "10.200.1.1", homes[0])
		at += 8 * cep.Hour // slow enough for an aeroplane
		t.login(at, "sshd", "success", user, "192.0.2.50", place{"NG", 6.52, 3.38})
		t.add(at+cep.Minute+t.upTo(50*cep.Minute), "iam", `"action":"grant_admin","actor":%q,"target":"friend%d"`, user, i)
		t.planted["new-country-then-admin"]++
	}
}

// travellers log in at home and an hour later on the other side of the world.
func (t *town) travellers() {
	for i := range 5 {
		user, at := "traveller"+strconv.Itoa(i), t.between(0, 10*cep.Hour)
		t.login(at, "sshd", "success", user, "10.200.0.1", pick(t, homes))
		t.login(at+cep.Hour/2+t.upTo(cep.Hour/2), "sshd", "success", user, "192.0.2."+strconv.Itoa(i), pick(t, far))
		t.planted["impossible-travel"]++
	}
}

// consoleUsers open the console in the evening without a VPN session; those with one are among the people.
func (t *town) consoleUsers() {
	for i := range 4 {
		t.login(t.between(9*cep.Hour, 11*cep.Hour), "console", "success", "night"+strconv.Itoa(i), "192.0.2.77", pick(t, homes))
		t.planted["login-without-vpn"]++
	}
}

func (t *town) payment(at cep.Time, card string, amount float64, merchant string) {
	t.add(at, "payments", `"type":"payment","status":%q,"card":%q,"amount":%.2f,"merchant":%q`, "approved", card, amount, merchant)
}

// customers pay between 3 and 150: never more than 50 times what they paid before.
func (t *town) customers(n int) {
	cards := max(n/15, 1)
	for i := range n {
		at := t.between(0, townDay)
		// One in a thousand comes some minutes late, from a terminal that was offline.
		offline := i%1000 == 999 && at < townMorning+townDay-cep.Hour
		t.payment(at, "card"+strconv.Itoa(t.rnd.IntN(cards)), 3+147*t.rnd.Float64()*t.rnd.Float64(), pick(t, merchants))
		if offline {
			t.events[len(t.events)-1].arrive = at + 10*cep.Minute + t.upTo(20*cep.Minute)
			t.late++
		}
	}
}

// cardThieves try a card three times with small sums, then buy something dear; some lose their nerve.
func (t *town) cardThieves() {
	for i := range 12 {
		card, at := "stolen"+strconv.Itoa(i), t.between(0, 11*cep.Hour)
		for range 3 {
			t.payment(at, card, 1+t.rnd.Float64(), "kiosk")
			at += cep.Minute + t.upTo(2*cep.Minute)
		}
		if i%3 != 2 {
			t.payment(at, card, 200+800*t.rnd.Float64(), "jeweller")
			t.planted["card-testing"]++
		}
	}
}

func (t *town) transfer(at cep.Time, account string, amount float64) {
	t.add(at, "payments", `"type":"transfer","status":"approved","account":%q,"amount":%.2f`, account, amount)
}

// launderers move sums below the limit that add up; honest people move as much over the day.
func (t *town) launderers() {
	for i := range 6 {
		account, at := "shell"+strconv.Itoa(i), t.between(0, 10*cep.Hour)
		for range 4 { // more than 10,000 with the third or fourth, after which the hour's suppression holds
			t.transfer(at, account, 2600+900*t.rnd.Float64())
			at += 5*cep.Minute + t.upTo(5*cep.Minute)
		}
		t.planted["money-flow"]++

		account, at = "saver"+strconv.Itoa(i), t.between(0, 2*cep.Hour)
		for range 4 {
			t.transfer(at, account, 2600+900*t.rnd.Float64())
			at += 90 * cep.Minute
		}
	}
}

// accountThieves reset a password and go straight for the money; owners confirm a second factor first.
func (t *town) accountThieves() {
	for i := range 10 {
		account, at := "holder"+strconv.Itoa(i), t.between(0, 11*cep.Hour)
		t.add(at, "payments", `"type":"password_reset","account":%q`, account)
		if i%2 == 0 {
			t.planted["reset-then-transfer"]++
		} else {
			t.add(at+cep.Minute, "payments", `"type":"second_factor","account":%q`, account)
		}
		t.transfer(at+2*cep.Minute+t.upTo(20*cep.Minute), account, 500+400*t.rnd.Float64())
	}
}

func (t *town) order(at cep.Time, kind, order, customer string) {
	t.add(at, "orders", `"type":%q,"order":%q,"customer":%q,"total":%.2f`, kind, order, customer, 10+90*t.rnd.Float64())
}

// shoppers order and pay, or cancel, within the half hour.
func (t *town) shoppers(n int) {
	for i := 0; i+1 < n; i += 2 {
		order, customer := "o"+strconv.Itoa(i), "customer"+strconv.Itoa(t.rnd.IntN(n))
		at := t.between(0, townDay-cep.Hour)
		t.order(at, "placed", order, customer)
		end := "paid"
		if t.chance(10) {
			end = "cancelled"
		}
		t.order(at+cep.Minute+t.upTo(28*cep.Minute), end, order, customer)
	}
}

// debtors never pay.
func (t *town) debtors() {
	for i := range 9 {
		t.order(t.between(0, townDay-cep.Hour), "placed", "unpaid"+strconv.Itoa(i), "debtor"+strconv.Itoa(i))
		t.planted["order-not-paid"]++
	}
}

// couriers carry express orders; one in three takes too long. Both outcomes are alerts.
func (t *town) couriers() {
	for i := range 9 {
		order, at := "express"+strconv.Itoa(i), t.between(0, 8*cep.Hour)
		t.add(at, "orders", `"type":"paid","order":%q,"express":true`, order)
		if i%2 == 0 {
			t.add(at+cep.Hour/2, "orders", `"type":"packed","order":%q,"express":true`, order)
		}
		if i%3 != 2 {
			t.add(at+cep.Hour+t.upTo(cep.Hour/2), "orders", `"type":"shipped","order":%q,"express":true`, order)
		}
		t.planted["express-order"]++
	}
}

// refunders get their money back; honest ones send the goods back first.
func (t *town) refunders() {
	for i := range 12 {
		order, customer, at := "refund"+strconv.Itoa(i), "customer"+strconv.Itoa(i), t.between(0, 8*cep.Hour)
		t.order(at, "placed", order, customer)
		t.order(at+cep.Minute, "paid", order, customer)
		if i%3 == 0 {
			t.planted["refund-without-return"]++
		} else {
			t.order(at+cep.Hour, "returned", order, customer)
		}
		t.order(at+2*cep.Hour, "refunded", order, customer)
	}
}

func (t *town) reading(at cep.Time, device string) {
	t.add(at, "sensors", `"kind":"reading","device":%q,"temperature":%.1f,"humidity":%d`, device, 18+6*t.rnd.Float64(), 30+t.rnd.IntN(30))
}

// machines report once a minute, all day; now and then with an error, never three within minutes.
func (t *town) machines(n int) {
	const most = 800 // 12 hours at 55 seconds, and an error an hour: a machine is there all day or not at all
	for d := 0; n >= most; d++ {
		device := "sensor" + strconv.Itoa(d)
		next := cep.Hour + t.upTo(2*cep.Hour)
		for at := t.upTo(cep.Minute); at < townDay; at += 55*cep.Second + t.upTo(10*cep.Second) {
			if at > next {
				t.add(townMorning+at+cep.Second, "sensors", `"kind":"error","device":%q,"code":"checksum"`, device)
				next = at + cep.Hour + t.upTo(4*cep.Hour)
				n--
			}
			t.reading(townMorning+at, device)
			n--
		}
	}
}

// deadSensors report until they die, some come back after a while.
func (t *town) deadSensors() {
	for i := range 7 {
		device, at := "cellar"+strconv.Itoa(i), t.between(0, cep.Hour)
		for range 30 {
			t.reading(at, device)
			at += 50*cep.Second + t.upTo(20*cep.Second)
		}
		t.planted["sensor-silent"]++
		if i%2 == 0 {
			at += 10 * cep.Minute
			for ; at < townMorning+townDay; at += 2*cep.Minute + t.upTo(2*cep.Minute) {
				t.reading(at, device)
			}
		}
	}
}

// brokenMachines give bursts of errors between their readings.
func (t *town) brokenMachines() {
	for i := range 6 {
		device := "press" + strconv.Itoa(i)
		at, end := t.between(0, 10*cep.Hour), townMorning+townDay
		for range 3 + t.rnd.IntN(25) {
			t.add(at, "sensors", `"kind":"error","device":%q,"code":%q`, device, pick(t, []string{"timeout", "overheat", "jam"}))
			at += 5*cep.Second + t.upTo(50*cep.Second)
		}
		t.planted["error-burst"]++
		for ; at < end; at += 2*cep.Minute + t.upTo(2*cep.Minute) {
			t.reading(at, device)
		}
	}
}

// administrators get rights, use them, and have a ticket; most calls are nothing special.
func (t *town) administrators(n int) {
	for i := 0; n >= 5; i++ {
		user, at := "ops"+strconv.Itoa(i), t.between(0, 11*cep.Hour)
		t.add(at, "iam", `"action":"grant_admin","actor":"lead","target":%q`, user)
		at += cep.Minute + t.upTo(5*cep.Minute)
		t.add(at, "cloud", `"call":"AuthorizeIngress","caller":%q,"resource":"sg-%d"`, user, t.rnd.IntN(100))
		t.add(at+cep.Second+t.upTo(100*cep.Second), "approvals", `"kind":"approved","requester":%q`, user)
		t.add(at+cep.Minute, "cloud", `"call":"DescribeInstances","caller":%q,"resource":"*"`, user)
		t.add(at+10*cep.Minute, "iam", `"action":"revoke_admin","actor":"lead","target":%q`, user)
		n -= 5
	}
}

// ovens get hot; some cool down in time.
func (t *town) ovens() {
	for i := range 8 {
		device, begin, end := "oven"+strconv.Itoa(i), t.between(cep.Hour, 10*cep.Hour), townMorning+townDay
		hot := 7 * cep.Minute
		if i%2 == 0 {
			hot = 12*cep.Minute + t.upTo(30*cep.Minute)
			t.planted["hot-for-ten-minutes"]++
		}
		for at := t.between(0, cep.Minute); at < end; at += 50*cep.Second + t.upTo(20*cep.Second) {
			temperature := 40 + 30*t.rnd.Float64()
			if at >= begin && at < begin+hot {
				temperature += 50
			}
			t.add(at, "sensors", `"kind":"reading","device":%q,"temperature":%.1f`, device, temperature)
		}
	}
}

// gateways are on a list: one is silent for a while, another never speaks before noon.
func (t *town) gateways() {
	silent := t.between(2*cep.Hour, 6*cep.Hour)
	for at := t.between(0, cep.Minute); at < townMorning+townDay; at += 50*cep.Second + t.upTo(20*cep.Second) {
		if at < silent || at > silent+20*cep.Minute {
			t.add(at, "sensors", `"kind":"gateway","device":"gateway-a"`)
		}
		if at > townMorning+4*cep.Hour {
			t.add(at, "sensors", `"kind":"gateway","device":"gateway-b"`)
		}
	}
	t.planted["gateway-silent"] += 4 // both, and both speak again
	t.planted["sensor-silent"]++     // gateway-a; the other rule does not know that gateway-b should speak
}

// rogueAdmins have no ticket, or get it too late.
func (t *town) rogueAdmins() {
	for i := range 4 {
		user, at := "rogue"+strconv.Itoa(i), t.between(0, 11*cep.Hour)
		t.add(at, "iam", `"action":"grant_admin","actor":"mallory","target":%q`, user)
		at += cep.Minute
		t.add(at, "cloud", `"call":"AuthorizeIngress","caller":%q,"resource":"sg-%d"`, user, t.rnd.IntN(100))
		if i%2 == 0 {
			t.add(at+5*cep.Minute, "approvals", `"kind":"approved","requester":%q`, user)
		}
		t.planted["admin-without-approval"]++
	}
}

// computers run programs; administrators open remote shells from the jump hosts, and none from where they lead.
func (t *town) computers(n int) {
	hosts := max(n/50, 1)
	for range n {
		at, host := t.between(0, townDay), t.rnd.IntN(hosts)
		if t.chance(2) {
			t.add(at, "process", `"type":"remote_shell","host":"jump%d","target":"pc%d","user":"admin%d"`, t.rnd.IntN(3), host, t.rnd.IntN(9))
			continue
		}
		t.add(at, "process", `"type":"process","host":"pc%d","user":"user%d","image":"C:\\Program Files\\%s","pid":%d`,
			host, host, pick(t, images), 1000+t.rnd.IntN(60000))
	}
}

// intruders go from host to host, and two of them clear the log where they end.
func (t *town) intruders() {
	for i := range 5 {
		at, hops := t.between(0, 11*cep.Hour), 2+i%2
		for h := range hops {
			t.add(at, "process", `"type":"remote_shell","host":"lan%d-%d","target":"lan%d-%d","user":"svc"`, i, h, i, h+1)
			at += cep.Minute + t.upTo(5*cep.Minute)
		}
		t.planted["lateral-movement"] += hops - 1
		if i < 2 {
			t.add(at, "process", `"type":"process","host":"lan%d-%d","user":"svc","image":"C:\\Windows\\System32\\wevtutil.exe","command":"wevtutil cl Security"`, i, hops)
			t.planted["log-cleared"]++
		}
	}
}

// besiegers come to one host from two sides, go on from there, and clear its log.
func (t *town) besiegers() {
	for i := range 2 {
		at, host := t.between(0, 11*cep.Hour), "keep"+strconv.Itoa(i)
		for side := range 2 {
			t.add(at, "process", `"type":"remote_shell","host":"gate%d-%d","target":%q,"user":"svc"`, i, side, host)
			at += cep.Minute + t.upTo(5*cep.Minute)
			t.add(at, "process", `"type":"remote_shell","host":%q,"target":"vault%d-%d","user":"svc"`, host, i, side)
			at += cep.Minute + t.upTo(5*cep.Minute)
		}
		t.add(at, "process", `"type":"log_cleared","host":%q,"user":"svc"`, host)
		t.planted["lateral-movement"] += 2
		t.planted["log-cleared"]++
		t.planted["host-under-attack"]++
	}
}

// traders see prices that never fall, but for a few that do and recover.
func (t *town) traders() {
	for i := range 10 {
		symbol, price := "SYM"+strconv.Itoa(i), 50+100*t.rnd.Float64()
		trade := func(at cep.Time, change float64) {
			price += change
			t.add(at, "trades", `"symbol":%q,"price":%.2f`, symbol, price)
		}
		at := t.between(0, cep.Hour)
		for range 20 {
			trade(at, float64(t.rnd.IntN(2)))
			at += cep.Minute + t.upTo(10*cep.Minute)
		}
		if i%2 == 0 {
			for _, change := range []float64{0, -2, -3, 2, 3, 0} {
				trade(at, change)
				at += cep.Minute + t.upTo(5*cep.Minute)
			}
			t.planted["price-v"]++
		}
		for range 20 {
			trade(at, float64(t.rnd.IntN(2)))
			at += cep.Minute + t.upTo(10*cep.Minute)
		}
	}
}

// damagedLines are what a shipper leaves behind that was killed in the middle of a line.
func (t *town) damagedLines() {
	for range 7 {
		at := t.between(0, townDay)
		t.events = append(t.events, townEvent{at: at, stream: "process", line: []byte(`{"time":"2026-03-02T1`)})
		t.refused++
	}
}

// wrongClock is a till that believes in another century.
func (t *town) wrongClock() {
	t.payment(cep.Time(time.Date(2106, 2, 7, 6, 28, 15, 0, time.UTC).UnixNano()), "card1", 9.99, "florist")
	t.events[len(t.events)-1].arrive = townMorning + townDay/2
	t.future++
}
