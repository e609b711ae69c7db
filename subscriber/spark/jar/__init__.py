"""The classes that a driver's JVM has before its agent: from a jar, or compiled there."""
