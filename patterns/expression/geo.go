package expression

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cepd/cepd/cep"
)

// earthRadius is the mean radius of the earth in kilometres (IUGG).
const earthRadius = 6371.0088

// geoKilometres is the great-circle distance of two places, geo_km(a, b), or of geo_km(lat, lon, lat, lon).
func geoKilometres(args []cep.Value) (cep.Value, error) {
	var a, b place
	switch len(args) {
	case 2:
		var err error
		if a, err = placeOf(args[0]); err != nil {
			return cep.Value{}, err
		}
		if b, err = placeOf(args[1]); err != nil {
			return cep.Value{}, err
		}
	case 4:
		for _, v := range args {
			if !v.IsNumber() {
				return cep.Value{}, wrongType("geo_km", v)
			}
		}
		a, b = place{args[0].AsFloat(), args[1].AsFloat()}, place{args[2].AsFloat(), args[3].AsFloat()}
	default:
		return cep.Value{}, fmt.Errorf("geo_km takes two places, or two latitudes and longitudes")
	}
	for _, p := range []place{a, b} {
		if !(math.Abs(p.lat) <= 90 && math.Abs(p.lon) <= 360) {
			return cep.Value{}, fmt.Errorf("geo_km: there is no latitude %v, longitude %v", p.lat, p.lon)
		}
	}
	// Haversine: exact enough at short distances, where the law of cosines is not.
	const degree = math.Pi / 180
	lat, lon := math.Sin((b.lat-a.lat)*degree/2), math.Sin((b.lon-a.lon)*degree/2)
	h := lat*lat + math.Cos(a.lat*degree)*math.Cos(b.lat*degree)*lon*lon
	return cep.Float(2 * earthRadius * math.Asin(math.Min(1, math.Sqrt(h)))), nil
}

// place is a point on the earth in degrees.
type place struct{ lat, lon float64 }

// placeOf reads the usual forms: {lat, lon} with its longer names, "lat,lon", and [lon, lat] as in GeoJSON.
func placeOf(v cep.Value) (place, error) {
	switch v.Kind() {
	case cep.KindObject:
		lat, lon := firstMember(v, "lat", "latitude"), firstMember(v, "lon", "lng", "long", "longitude")
		if lat.IsNumber() && lon.IsNumber() {
			return place{lat.AsFloat(), lon.AsFloat()}, nil
		}
	case cep.KindList:
		if l := v.AsList(); len(l) >= 2 && l[0].IsNumber() && l[1].IsNumber() {
			return place{l[1].AsFloat(), l[0].AsFloat()}, nil
		}
	case cep.KindString:
		if lat, lon, ok := strings.Cut(v.AsString(), ","); ok {
			x, errX := strconv.ParseFloat(strings.TrimSpace(lat), 64)
			y, errY := strconv.ParseFloat(strings.TrimSpace(lon), 64)
			if errX == nil && errY == nil {
				return place{x, y}, nil
			}
		}
	default:
	}
	return place{}, fmt.Errorf(`geo_km: %s is no place: {lat, lon}, "lat,lon" or [lon, lat]`, v)
}

func firstMember(v cep.Value, names ...string) cep.Value {
	for _, n := range names {
		if m := v.Member(n); !m.IsMissing() {
			return m
		}
	}
	return cep.Value{}
}
