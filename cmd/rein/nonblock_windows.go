package main

const nonblock = 0
