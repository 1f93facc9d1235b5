// Package docs holds what the documentation shows to the program: the rules on a page are loaded, and their tests run on
// the engine. What nobody runs rots.
package docs
