"""What a query means, byte for byte: pure rooms that HTTP, Spark and every zone share [Query 4]."""
