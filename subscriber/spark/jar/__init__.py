"""What a driver's JVM has before its agent: a jar, or the same classes compiled there."""
