"""The public class that applications hold, and the parts of its methods."""
