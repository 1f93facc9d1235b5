// Package deploy checks what cepd is deployed with as far as a program can: alert rules against the metrics that there are and by
// promtool, the service, the image and the compose file by reading them, configurations by loading them, and the scripts that
// install and release by running them with a program that only pretends.
//
// What cannot be run here, containers and systemd itself, docs/operations.md says.
package deploy
