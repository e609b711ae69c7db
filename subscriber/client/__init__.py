"""The public class that applications hold, and what its methods are made of."""
