package main

import (
	"strconv"

	"github.com/cepd/cepd/cep"
)

// The plots of the shipped rules that are not among the worked examples, over the shapes of events that their sources have.

// thumbs are asked to confirm a login until they do; some hold out, and some were not asked often enough to be worn down.
func (t *town) thumbs() {
	for i := range 8 {
		user, at := "owner"+strconv.Itoa(i), t.between(0, 11*cep.Hour)
		pushes, result := 5+t.rnd.IntN(4), "SUCCESS"
		switch i % 4 {
		case 3:
			pushes = 4
		case 2:
			result = "FAILURE"
		default:
			t.planted["okta-push-fatigue"]++
		}
		for range pushes {
			t.add(at, "okta", `"eventType":"system.push.send_factor_verify_push","actor":{"alternateId":%q}`, user)
			at += 20*cep.Second + t.upTo(30*cep.Second)
		}
		t.add(at, "okta", `"eventType":"user.authentication.auth_via_mfa","actor":{"alternateId":%q},"outcome":{"result":%q},"debugContext":{"debugData":{"factor":"OKTA_VERIFY_PUSH"}},"client":{"ipAddress":"203.0.113.200"}`,
			user, result)
	}
}

// releases go out all day; one in five breaks its service.
func (t *town) releases() {
	for i := range 10 {
		service, at := "service"+strconv.Itoa(i), t.between(0, 11*cep.Hour)
		t.add(at, "deploys", `"service":%q,"status":"finished","version":"v%d","actor":"user%d"`, service, i, i)
		failures := 19
		if i%5 == 0 {
			failures = 20 + t.rnd.IntN(15) // fewer than twice twenty: one match
			t.planted["errors-after-a-deploy"]++
		}
		for range failures {
			at += cep.Second + t.upTo(10*cep.Second)
			t.add(at, "requests", `"service":%q,"status":%d,"path":"/cart","remote_addr":"10.0.0.%d"`, service, 500+t.rnd.IntN(4), t.rnd.IntN(250))
		}
	}
}

// pathfinders look for paths that are not there; search engines look slowly.
func (t *town) pathfinders() {
	for i := range 4 {
		address, at, pause := "198.51.100."+strconv.Itoa(40+i), t.between(0, 11*cep.Hour), cep.Second
		if i%2 == 0 {
			t.planted["paths-that-are-not-there"]++
		} else {
			pause = 3 * cep.Second
		}
		for path := range 40 {
			t.add(at, "requests", `"service":"shop","status":404,"path":"/old/%d","remote_addr":%q`, path, address)
			at += pause
		}
	}
}

// doors are opened and closed; some are forgotten for a while, and every closing of one of those ends its alert.
func (t *town) doors() {
	for i := range 40 {
		device, at := "door"+strconv.Itoa(i), t.between(0, 10*cep.Hour)
		t.add(at, "zigbee", `"device":%q,"contact":false,"battery":%d`, device, 40+t.rnd.IntN(60))
		open := cep.Minute + t.upTo(8*cep.Minute)
		if i%10 == 0 {
			open = 11*cep.Minute + t.upTo(cep.Hour/2)
			t.planted["door-left-open"] += 2
		}
		t.add(at+open, "zigbee", `"device":%q,"contact":true,"battery":%d`, device, 40+t.rnd.IntN(60))
	}
}
