package cep

// Epoch numbers the moments at which a job's state becomes durable, from 1. What happens between two of them happens
// entirely or not at all.
type Epoch uint64
